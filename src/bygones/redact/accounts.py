"""Find accounts of a machine: their names, and home folders wherever they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files

_SHARED_FOLDERS_TEXT = """
/ /app /applications /data /etc /home /library /mnt /opt /private /root /srv /system /tmp
/users /usr /var /volumes /work /workspace /workspaces
"""
_SHARED_FOLDERS = frozenset(_SHARED_FOLDERS_TEXT.split())
"""Homes that say nothing about a person, as in containers."""
_NOT_IN_NAMES = r"(?![\w-]|\.\w)"
"""What follows a complete name."""
_SEPARATOR = r"(?:\\{1,4}|/)"
_ACCOUNT_CONTEXTS = (
    # ssh cat@host, ~cat/notes
    r"(?<![\w.+-])(?P<a>{name})(?=@[\w\[])",
    r"(?<![\w/.])~(?P<b>{name})(?=[/\s\"':]|$)",
    # user=cat, "login": "cat", owner cat, sudo -u cat
    (
        r"(?i:\b(?:user|user_?name|login|log_?name|account|owner|uid)\b)"
        r"\\?[\"']?(?:\s?[:=]\s?|\s)\\?[\"']?(?P<c>{name})(?![\w./-])"
    ),
    (
        r"\b(?:su|sudo\s+-u|runuser\s+-u|useradd|adduser|userdel|passwd)\s+(?:-l?\s+)?"
        r"(?P<d>{name})(?![\w./-])"
    ),
    # chown cat:cat, and the owners in a long listing
    r"\bchown\s+(?:-\w+\s+)*(?P<e>{name})(?=[:\s])",
    r"(?<![\w/])(?P<f>{name}):{name}(?![\w/])",
    r"[-dlcbps][-rwxsStT]{{9}}[.+@]?\s+\d+\s+(?P<g>{name})(?=\s)",
    # a folder of people: /data/users/cat, /export/homes/cat
    r"(?i:[\\/](?:users|homes|people|accounts|profiles))[\\/]{{1,4}}(?P<h>{name})(?![\w-])",
)


@cache
def _ordinary_words() -> frozenset[str]:
    text = (files(__package__) / "ordinary_words.txt").read_text("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return frozenset(word for line in lines for word in line.split())


def is_ordinary_word(name: str) -> bool:
    """Whether a name of an account is also a command or a common word."""
    return name.lower() in _ordinary_words()


def find_account(lowered: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield where a text in lower case means an account, and not the word."""
    for match in _account_pattern(name).finditer(lowered):
        yield match.span(match.lastgroup or 0)


@lru_cache(maxsize=64)
def _account_pattern(name: str) -> re.Pattern[str]:
    escaped = re.escape(name)
    return re.compile("|".join(one.format(name=escaped) for one in _ACCOUNT_CONTEXTS))


def homes_of_sources(claude_homes: Iterable[str]) -> frozenset[str]:
    """Return the home folders of people in which homes of Claude Code are."""
    plain = (home.rstrip("/\\") for home in claude_homes)
    return frozenset(
        home.removesuffix(".claude").rstrip("/\\")
        for home in plain
        if _last_part(home) == ".claude"
    )


class HomeFinder:
    """Finds given home folders in texts, in the spellings of shells and project keys."""

    def __init__(self, homes: Iterable[str]) -> None:
        self.homes = frozenset(filter(_is_personal_home, homes))
        self.words = frozenset(map(_last_part, self.homes))
        """A text without one of these contains none of the homes."""
        self._path_ends = [f"{sep}{word}" for word in self.words for sep in "/\\"]
        self.key_words = frozenset(
            re.sub(r"[^A-Za-z0-9]", "-", word) for word in self.words
        )
        """The same in project keys."""
        self._key_ends = [f"-{word}" for word in self.key_words]
        # The longest first: one home may be inside of another.
        ordered = sorted(self.homes, key=lambda home: (-len(home), home))
        self._paths = _compile(map(_path_pattern, ordered))
        self._keys = _compile(map(_key_pattern, ordered))

    def find_paths(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of home folders."""
        # A look for how a path ends is much faster than the expression.
        if self._paths is not None and any(end in text for end in self._path_ends):
            yield from (match.span() for match in self._paths.finditer(text))

    def find_names(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of names of home folders in project keys."""
        if self._keys is not None and any(end in text for end in self._key_ends):
            for match in self._keys.finditer(text):
                yield match.span(match.lastindex or 0)


def _compile(patterns: Iterable[str]) -> re.Pattern[str] | None:
    joined = "|".join(patterns)
    return re.compile(joined) if joined else None


def _is_personal_home(home: str) -> bool:
    plain = _plain_path(home).lower()
    return plain not in _SHARED_FOLDERS and ("/" in plain or ":" in plain)


def _plain_path(path: str) -> str:
    return path.replace("\\", "/").rstrip("/") or "/"


def _last_part(home: str) -> str:
    return _plain_path(home).rpartition("/")[2]


def _path_pattern(home: str) -> str:
    first, *others = _plain_path(home).split("/")
    if first.endswith(":"):  # a drive, which shells on Windows mount as a folder
        drive = re.escape(first[0])
        start = rf"(?i:(?<![A-Za-z]){drive}:|(?<![\w.])(?:/mnt)?/{drive}(?=[\\/]))"
    else:
        start = rf"(?<![\w.]){re.escape(first)}"
    rest = "".join(f"{_SEPARATOR}{re.escape(part)}" for part in others)
    return f"{start}{rest}{_NOT_IN_NAMES}"


def _key_pattern(home: str) -> str:
    parts = [
        re.sub(r"[^A-Za-z0-9]", "-", part) for part in _plain_path(home).split("/")
    ]
    above = "-".join(parts[:-1])
    return (
        rf"(?<![A-Za-z0-9]){re.escape(above)}-({re.escape(parts[-1])})(?![A-Za-z0-9])"
    )
