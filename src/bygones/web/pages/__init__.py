"""Pages of the web interface."""
