"""The JSON of Bygones: what `--json`, the web API and `to_dict()` produce.

Each object has a `type`. Fields are always present and null if unknown, except those
that must be requested. Times end in `_at`, durations in `_ms`; costs are US dollars.
Turns, branches and hits count from 1.
"""
