"""Render sessions as Markdown."""
