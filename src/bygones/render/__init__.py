"""Render sessions as text, Markdown, HTML and JSON."""
