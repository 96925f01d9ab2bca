"""The MCP server for agents."""
