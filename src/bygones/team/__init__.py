"""TEAM: one archive for many people, on an engine that exists."""
