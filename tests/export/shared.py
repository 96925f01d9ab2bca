"""Sessions to export, in a few words."""

from __future__ import annotations

from pathlib import Path

from bygones.export import Chosen, Format, Making
from bygones.model.sessions import Session
from bygones.reading import raws, read
from bygones.render.redact import Redactor
from tests.build import Home, prompt, reply, session_id, thread, tool_result, tool_use

__all__ = ["KEY", "OPEN", "chosen", "home_of", "making", "sessions"]

KEY = "gh" + "p_" + "a1B2c3D4e5F6" * 3
OPEN = Making(raws=raws)
"""How sessions are written if nothing is hidden."""


def home_of(folder: Path, count: int = 3) -> Home:
    """Return a home with some sessions in which a secret is told."""
    home = Home(folder)
    for number in range(count):
        records = thread(
            prompt(f"Use {KEY} for number {number}"),
            reply([tool_use("Bash", command="ls /home/ada/src")]),
            tool_result("toolu_1", "one\ntwo"),
            reply(f"Number {number} is *done*."),
            start=3600 * number,
        )
        home.session(session_id(number), records)
    home.agent(session_id(0), "a1", thread(prompt("Look around"), reply("Seen")))
    return home


def sessions(folder: Path) -> list[Session]:
    return sorted(read(folder), key=lambda session: session.id)


def chosen(folder: Path) -> list[Chosen]:
    return [
        Chosen(
            id=session.id,
            stamp=repr([(one.size, one.mtime_ns) for one in session.sources]).encode(),
            open=lambda session=session: session,  # type: ignore[misc]
        )
        for session in sessions(folder)
    ]


def making(form: Format, *, redact: bool = True) -> Making:
    return Making(format=form, redactor=Redactor() if redact else None, raws=raws)
