"""MCP servers that others can run: thin wrappers over ``tools``, one module each."""
