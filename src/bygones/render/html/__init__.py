"""Render sessions as HTML."""
