"""Search and selection of sessions."""
