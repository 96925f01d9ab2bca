"""Bring the archive and its index up to date with Claude Code homes."""
