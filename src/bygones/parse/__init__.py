"""Decode lines of transcripts into records."""
