"""What is wrong with what the user has set, for whoever goes on all the same."""

from __future__ import annotations

import os
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from bygones.errors import BygonesError
from bygones.settings import (
    PLACES,
    PRICES_VARIABLE,
    SETTINGS,
    SETTINGS_VARIABLE,
    TOKEN_VARIABLE,
    read_settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["set_aside"]

_OURS = "BYGONES_"
_OTHERS = {
    PRICES_VARIABLE,
    SETTINGS_VARIABLE,
    TOKEN_VARIABLE,
    *(f"{_OURS}{name}" for name in ("DEBUG", "HUB_RAW", "HUB_STORE", "MCP_TOKEN")),
}


@contextmanager
def set_aside() -> Iterator[list[str]]:
    """Give what is wrong with what is set; while it lasts none of that counts."""
    kept = dict(os.environ)
    wrong = list(_strange(os.environ))
    try:
        read_settings(os.environ, Path.home())
    except BygonesError as error:
        wrong.append(str(error))
        for one in SETTINGS:
            if one.name not in PLACES:
                os.environ.pop(one.variable, None)
        os.environ[SETTINGS_VARIABLE] = os.devnull
    try:
        yield wrong
    finally:
        os.environ.clear()
        os.environ.update(kept)


def _strange(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what is said of variables that look like ours and mean nothing."""
    known = {*(one.variable for one in SETTINGS if one.variable), *_OTHERS}
    for name in sorted(environ):
        if name.startswith(_OURS) and name not in known:
            close = get_close_matches(name, known, n=1, cutoff=0.8)
            meant = f"; did you mean {close[0]}?" if close else ""
            yield f"{name} means nothing{meant}"
