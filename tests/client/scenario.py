"""What a scenario consists of, and the list of all of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from textwrap import dedent

from tests.client.driver import ClaudeCode
from tests.client.messages_api import Script

_MODULES = (
    "basics",
    "calls",
    "file_versions",
    "rewinds",
    "compactions",
    "interface",
    "combined",
    "lineage",
)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Something a person does with Claude Code, and how it must read afterwards."""

    name: str
    description: str
    script: Script
    play: Callable[[ClaudeCode], None]
    trees: tuple[str, ...]
    """What `tree` shows of each session, oldest first; see `tests.client.outline`."""
    shows: tuple[str, ...]
    """What `show` shows of each session."""
    needs_terminal: bool = False
    is_quick: bool = False
    """Whether it is part of the default run."""
    unrecorded: int = 0
    """Answers that no record contains: titles, summaries, searches."""
    is_cut_off: bool = False
    """Whether an answer was cut off; the client estimates its tokens in its total."""
    wrong: Mapping[str, str] = field(default_factory=dict)
    """Checks that fail today, each with the reason."""


_SCENARIOS: dict[str, Scenario] = {}


def scenario(  # noqa: PLR0913 (all by name)
    *,
    script: Script,
    tree: str | tuple[str, ...],
    show: str | tuple[str, ...],
    needs_terminal: bool = False,
    is_quick: bool = False,
    unrecorded: int = 0,
    is_cut_off: bool = False,
    wrong: Mapping[str, str] | None = None,
) -> Callable[[Callable[[ClaudeCode], None]], Callable[[ClaudeCode], None]]:
    """Register the decorated function as a scenario of the same name."""

    def register(play: Callable[[ClaudeCode], None]) -> Callable[[ClaudeCode], None]:
        name = play.__name__
        _SCENARIOS[name] = Scenario(
            name=name,
            description=play.__doc__ or "",
            script=script,
            play=play,
            trees=_outlines(tree),
            shows=_outlines(show),
            needs_terminal=needs_terminal,
            is_quick=is_quick,
            unrecorded=unrecorded,
            is_cut_off=is_cut_off,
            wrong=wrong or {},
        )
        return play

    return register


def _outlines(text: str | tuple[str, ...]) -> tuple[str, ...]:
    texts = (text,) if isinstance(text, str) else text
    return tuple(dedent(one).strip("\n").rstrip() for one in texts)


def load_scenarios() -> dict[str, Scenario]:
    """Return all scenarios by name."""
    for name in _MODULES:
        importlib.import_module(f"tests.client.scenarios.{name}")
    return _SCENARIOS
