"""QUERY: the language of searches; text to tree and back, and a matcher in memory."""

from __future__ import annotations

from importlib import import_module

from bygones.query.fields import BY_NAME, FIELDS, FORMS, TIMES, Field, Form, Value
from bygones.query.match import Analyse, Subject, matches
from bygones.query.parse import MAX_DEPTH, MAX_LENGTH, parse
from bygones.query.write import write

# Whoever asks need not be told what can be asked.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from bygones.query.help import Hint, help_text, hints

__all__ = [
    "BY_NAME",
    "FIELDS",
    "FORMS",
    "MAX_DEPTH",
    "MAX_LENGTH",
    "TIMES",
    "Analyse",
    "Field",
    "Form",
    "Hint",
    "Subject",
    "Value",
    "help_text",
    "hints",
    "matches",
    "parse",
    "write",
]


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for."""
    if name in {"Hint", "help_text", "hints"}:
        return getattr(import_module("bygones.query.help"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
