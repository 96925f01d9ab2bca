"""Build sessions from records."""
