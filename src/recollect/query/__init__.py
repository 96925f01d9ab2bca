"""QUERY: the language of searches; text to tree and back, and a matcher in memory."""

from __future__ import annotations

from recollect.query.fields import BY_NAME, FIELDS, FORMS, TIMES, Field, Form, Value
from recollect.query.help import Hint, help_text, hints
from recollect.query.match import Analyse, Subject, matches
from recollect.query.parse import MAX_DEPTH, MAX_LENGTH, parse
from recollect.query.write import write

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
