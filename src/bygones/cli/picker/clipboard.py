"""Copy a text to the clipboard."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable

_TOOLS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
)
"""Programs that set the clipboard, and the variable without which they cannot."""
_MAX_SECONDS = 2


def copy_text(text: str, write_raw: Callable[[str], None]) -> None:
    """Copy a text with the terminal (OSC 52), and with a program if there is one.

    The terminal works over SSH and in containers, but not every terminal does it, and
    none says whether it did.
    """
    encoded = b64encode(text.encode()).decode("ascii")
    write_raw(f"\x1b]52;c;{encoded}\x07")
    command = _clipboard_command()
    if command is not None:
        # The program keeps running while it owns the clipboard.
        try:
            subprocess.run(  # noqa: S603 (a fixed program)
                command,
                input=text.encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_MAX_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return


def _clipboard_command() -> list[str] | None:
    if sys.platform == "darwin":
        names: tuple[tuple[str, ...], ...] = (("pbcopy",),)
    elif sys.platform == "win32":
        names = (("clip",),)
    else:
        names = tuple(words for variable, words in _TOOLS if os.environ.get(variable))
    for program, *rest in names:
        if found := shutil.which(program):
            return [found, *rest]
    return None
