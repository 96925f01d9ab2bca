"""Render sessions as plain text for terminals."""
