"""Makes the pictures of the README from the invented home: ``python -m docs.pictures``.

Each is what a command writes to a terminal of 92 columns, set in SVG.
"""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import unicodedata
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ

PICTURES = Path(__file__).resolve().parent / "pictures"
COLUMNS, CELL, LINE = 92, 8.43, 20
EXAMPLES = {
    "list": "bygones list",
    "search": "bygones search charged twice retry",
    "tree": "bygones tree b956",
    "show": "bygones show b956",
}
BLANK = "\u00a0"
"""A space that no renderer takes away."""
MOST = 34
"""Lines of a picture."""
SIGN = re.compile(r"\x1b\[([0-9;]*)m")
COLORS = {
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#e3b341",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#76e3ea",
}


def main() -> None:
    """Write every picture."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        surroundings = prepared(Path(folder))
        for name, command in EXAMPLES.items():
            said = written(command.split()[1:], surroundings)
            lines = [line.replace(folder, "~") for line in said]
            picture = drawn([f"\x1b[32m$\x1b[0m {command}", *lines[: MOST - 1]])
            (PICTURES / f"{name}.svg").write_text(picture, "utf-8")


def prepared(folder: Path) -> dict[str, str]:
    """Make the invented home, and return the surroundings in which it is used."""
    surroundings = {
        **os.environ,
        "HOME": str(folder),
        "BYGONES_HOME": str(folder / "claude-home"),
        "BYGONES_ARCHIVE": str(folder / "archive"),
        "BYGONES_PAGER": "cat",
        "TERM": "xterm-256color",
        "TZ": "UTC",
        "PWD": str(folder / "shop"),
    }
    words = [sys.executable, "-m", "bygones", "demo", str(folder)]
    subprocess.run(words, env=surroundings, check=True, capture_output=True)  # noqa: S603 (our own words)
    return surroundings


def written(words: list[str], surroundings: dict[str, str]) -> list[str]:
    """Return the lines that a command writes to a terminal."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    child = subprocess.Popen(  # noqa: S603 (our own words)
        [sys.executable, "-m", "bygones", *words],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=surroundings,
    )
    os.close(theirs)
    raw = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        raw += piece
    child.wait()
    return raw.decode().replace("\r\n", "\n").rstrip("\n").split("\n")


def drawn(lines: list[str]) -> str:
    """Return lines of a terminal as a picture."""
    wide, high = COLUMNS * CELL + 32, len(lines) * LINE + 52
    rows = "\n".join(row(line, 48 + at * LINE) for at, line in enumerate(lines))
    dots = "".join(
        f'<circle cx="{20 + at * 18}" cy="18" r="5.5" fill="{color}"/>'
        for at, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high}"'
        f' viewBox="0 0 {wide:.0f} {high}" font-size="14"'
        ' font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>{dots}\n'
        f'<g fill="#e6edf3">\n{rows}\n</g>\n</svg>\n'
    )


def row(line: str, top: int) -> str:
    """Return one line, each piece of it at its column."""
    pieces, style, column = [], "", 0
    for at, text in enumerate(SIGN.split(line)):
        if at % 2:
            style = "" if text in {"", "0"} else text
            continue
        if text.strip():
            x = 16 + column * CELL
            width = cells(text) * CELL
            pieces.append(
                f'<text x="{x:.1f}" y="{top}" textLength="{width:.1f}"'
                f"{look(style)}>{escape(text).replace(' ', BLANK)}</text>"
            )
        column += cells(text)
    return "".join(pieces)


def look(style: str) -> str:
    """Return how a style of the terminal looks."""
    codes = style.split(";")
    told = "".join(f' fill="{COLORS[code]}"' for code in codes if code in COLORS)
    told += ' font-weight="bold"' if "1" in codes else ""
    told += ' opacity="0.6"' if "2" in codes else ""
    return told + (' font-style="italic"' if "3" in codes else "")


def cells(text: str) -> int:
    """Return how many columns a text takes."""
    return sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


if __name__ == "__main__":
    main()
