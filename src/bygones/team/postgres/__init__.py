"""PostgreSQL, for a team: what was sent, what is derived of it, and who may see it."""

from __future__ import annotations

from bygones.team.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
