"""The files of a workflow's run: its agents' transcripts, and its journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.build import PROJECT, SESSION, Home, Written, jsonl

__all__ = ["RUN", "UNDER", "step", "write_agent", "write_journal"]

RUN = "wf_01234567-abc"
UNDER = f"subagents/workflows/{RUN}/"
"""Where the files lie, below their session's folder."""


def write_agent(
    home: Home,
    agent_id: str,
    records: Iterable[object],
    *,
    meta: Mapping[str, object] | None = None,
) -> Path:
    """Write an agent of the run, with its sidecar if there is one."""
    path = home.agent(SESSION, agent_id, records, meta=meta)
    folder = _folder(home)
    for written in path.parent.glob(f"agent-{agent_id}.*"):
        written.replace(folder / written.name)
    return folder / path.name


def write_journal(home: Home, *steps: object) -> Path:
    """Write the run's journal."""
    path = _folder(home) / "journal.jsonl"
    path.write_bytes(jsonl(steps))
    return path


def step(kind: str, agent: str, **given: object) -> Written:
    """Return a journal's record of an agent."""
    return {"type": kind, "key": f"k-{agent}", "agentId": agent, **given}


def _folder(home: Home) -> Path:
    folder = home.path / "projects" / PROJECT / SESSION / UNDER
    folder.mkdir(parents=True, exist_ok=True)
    return folder
