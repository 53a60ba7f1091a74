"""Our MCP host and servers, tried against the servers and clients of others."""
