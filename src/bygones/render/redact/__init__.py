"""REDACT: hide secrets and persons in whatever leaves the machine."""

from __future__ import annotations

from bygones.render.redact.json import is_private_line, redacted_line
from bygones.render.redact.redactor import Found, Redactor
from bygones.render.redact.values import Finds, redacted

__all__ = ["Finds", "Found", "Redactor", "is_private_line", "redacted", "redacted_line"]
