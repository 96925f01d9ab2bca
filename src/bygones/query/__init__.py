"""The query language: parse, format and match."""
