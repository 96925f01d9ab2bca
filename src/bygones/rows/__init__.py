"""ROWS: the JSON that all faces give, so that the same question has one answer."""
