"""Bring the archives of one person's machines level."""
