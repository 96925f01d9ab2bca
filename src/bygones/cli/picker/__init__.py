"""The picker: find a session as you type, on a terminal."""
