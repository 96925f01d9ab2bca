"""Verify, rebuild, back up, restore and purge an archive."""
