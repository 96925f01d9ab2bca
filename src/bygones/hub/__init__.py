"""The team server and its client."""
