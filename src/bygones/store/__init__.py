"""STORE: the archive and its index; the only code that knows the engines."""
