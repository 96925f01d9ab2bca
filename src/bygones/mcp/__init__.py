"""MCP: a face for agents; few tools, small cited answers, nothing that writes."""
