"""USAGE: what the index knows of tokens, priced and summed."""
