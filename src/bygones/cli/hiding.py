"""What is hidden of this user whenever something leaves the machine."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from bygones.render.redact import Redactor
from bygones.settings import hidden_by_user

__all__ = ["own_redactor"]


def own_redactor() -> Redactor:
    """Return what hides this user's secrets: the known ones, and those of settings."""
    home = Path.home()
    own = hidden_by_user(os.environ, home)
    try:
        login = getpass.getuser()
    except (OSError, KeyError, ImportError):
        login = home.name
    return Redactor(names=(login, home.name, *own.names), patterns=own.patterns.items())
