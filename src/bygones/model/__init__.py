"""Frozen structs that the stages exchange; no I/O."""
