"""Token usage and cost."""
