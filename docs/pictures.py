"""Makes the pictures of the README from the invented home: ``python -m docs.pictures``.

Each is what a command writes to a terminal of 92 columns, set in SVG. The picker is what
tmux has on its screen.
"""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ

PICTURES = Path(__file__).resolve().parent / "pictures"
COLUMNS, CELL, LINE = 92, 8.43, 20
PICKER_COLUMNS, PICKER_ROWS = 116, 26
SECONDS_TO_PAINT = 8
EXAMPLES = {
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
        screen = captured("bygones --query 'retry test'", surroundings)
        lines = [line.replace(folder, "~") for line in screen]
        (PICTURES / "picker.svg").write_text(drawn(lines, PICKER_COLUMNS), "utf-8")
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


def captured(command: str, surroundings: dict[str, str]) -> list[str]:
    """Return the screen of a command that waits for keys."""
    socket = f"pictures-{os.getpid()}"
    size = ["-x", str(PICKER_COLUMNS), "-y", str(PICKER_ROWS)]
    folder = Path(surroundings["HOME"]) / "shop"
    program = f"exec {sys.executable} -m {command}"
    place = {**surroundings, "TERM": "xterm-256color"}
    tmux = ["tmux", "-L", socket, "-f", "/dev/null"]

    def run(*words: str) -> str:
        done = subprocess.run(  # noqa: S603 (our own words)
            [*tmux, *words], env=place, cwd=folder, check=True, capture_output=True
        )
        return done.stdout.decode()

    run("new-session", "-d", *size, program)
    try:
        time.sleep(SECONDS_TO_PAINT)
        return run("capture-pane", "-e", "-p").rstrip("\n").split("\n")
    finally:
        run("kill-server")


def drawn(lines: list[str], columns: int = COLUMNS) -> str:
    """Return lines of a terminal as a picture."""
    wide, high = columns * CELL + 32, len(lines) * LINE + 52
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
    pieces, column = [], 0
    codes: tuple[str, ...] = ()
    for at, text in enumerate(SIGN.split(line)):
        if at % 2:
            codes = changed(codes, text.split(";"))
            continue
        x, width = 16 + column * CELL, cells(text) * CELL
        fill = background(codes)
        if text and fill:
            pieces.append(
                f'<rect x="{x:.1f}" y="{top - LINE + 5}" width="{width:.1f}"'
                f' height="{LINE}" fill="{fill}"/>'
            )
        if text.strip():
            pieces.append(
                f'<text x="{x:.1f}" y="{top}" textLength="{width:.1f}"'
                f"{look(codes)}>{escape(text).replace(' ', BLANK)}</text>"
            )
        column += cells(text)
    return "".join(pieces)


def changed(codes: tuple[str, ...], given: list[str]) -> tuple[str, ...]:
    """Return the codes that count after some were given."""
    for code in given:
        if code in {"", "0"}:
            codes = ()
        elif code in {"39", "49"}:
            codes = tuple(
                one for one in codes if one[:1] != code[:1] or len(one) < len(code)
            )
        else:
            codes = (*codes, code)
    return codes


def background(codes: tuple[str, ...]) -> str:
    """Return the color behind a text; empty if it has none of its own."""
    if "43" in codes:
        return COLORS["33"]
    return "#e6edf3" if "7" in codes else ""


def look(codes: tuple[str, ...]) -> str:
    """Return how a text with these codes looks."""
    dark = background(codes)
    colors = [COLORS[code] for code in codes if code in COLORS and not dark]
    told = f' fill="{colors[-1]}"' if colors else ""
    told += ' fill="#0d1117"' if dark else ""
    told += ' font-weight="bold"' if "1" in codes else ""
    told += ' opacity="0.6"' if "2" in codes else ""
    return told + (' font-style="italic"' if "3" in codes else "")


def cells(text: str) -> int:
    """Return how many columns a text takes."""
    return sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


if __name__ == "__main__":
    main()
