"""The MCP host: servers that a person configured, as tools with contracts.

``configuration`` reads which servers there are (``servers``), ``pins`` keeps what a person has
confirmed of them. ``connection`` holds one session to one server over a ``transport``,
``definitions`` looks at what it lists, ``tools`` makes LangChain tools of that, ``results`` reads
what calls give, ``offers`` its resources and prompts, ``questions`` what it asks the person.
``host`` holds all servers together. Nothing outside this package imports the MCP SDK or its
LangChain adapter. This file imports nothing, so that reading a configuration costs none of them.
"""
