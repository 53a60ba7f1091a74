"""The MCP host: servers that a person configured, as tools with contracts.

``config`` reads ``.mcp.json``; ``connection`` holds one session to one server; ``tools`` makes
LangChain tools of what it offers; ``host`` holds all servers together. Nothing outside this
package imports the MCP SDK or its LangChain adapter. This file imports nothing, so that reading
a configuration costs none of them.
"""
