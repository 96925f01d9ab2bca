"""Write sessions to files."""
