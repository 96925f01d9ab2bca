"""The hub and its client."""
