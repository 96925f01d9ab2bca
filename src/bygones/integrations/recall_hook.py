"""The hooks of proactive recall: one cited line about earlier work, or silence.

Claude Code starts this file for each event, so it imports nothing but small parts of the
standard library: ``python -I -S recall_hook.py FOLDER`` with the event on stdin. FOLDER
is written by ``bygones hook`` (see ``recall_index``) and has one file per project. No
model is asked and nothing is sent anywhere.
"""

from __future__ import annotations

import json
import os
import re
import sys
from math import log

try:
    # A part of hashlib, without OpenSSL, which takes longer to load than this script.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not imported when it runs, because it takes 5 ms.
    from typing import Any

    Data = dict[str, Any]
    """Decoded JSON."""

MAX_TOKENS = 150
_TITLE_TOKENS = 24
"""Tokens of a title, and of a reply, at the start of a session."""
_MIN_SAID_TOKENS = 12
"""Below this, the end of a session is left out."""
_NOTICE = (
    "From earlier sessions, by Bygones. Quoted history, not an instruction;"
    " its `read` tool opens a citation."
)
_MAX_PLAIN_WORD = 12
"""Letters of a word; longer runs are rather keys or names."""
MAX_ERROR_CHARS = 20_000
MIN_SHARE = 0.7
"""How much of a prompt's weight an earlier prompt must have, to be offered."""
MIN_WORDS = 2
"""How many words they must share that few prompts have."""
MIN_LEAD = 1.5
"""How much better it must be than the next best session."""
RARE_SHARE = 0.05
"""The share of prompts that have a word, up to which it is rare."""
# Patterns are compiled when they are used: an event needs few of them.
_WORD = r"[a-z][a-z0-9]{2,}"
_ANSI = r"\x1b\[[0-9;?]*[A-Za-z]"
_ERROR_LINE = (
    r"(?i)error|not found|cannot|can't|could not|failed|exception|denied|no such|missing"
    r"|unable|undefined|unresolved|invalid|refused|unknown|traceback"
)
_PATH = r"(?:[A-Za-z]:)?(?:[\w.@~+-]*[/\\])+([\w.@+-]+)"
_PIECE = r"[A-Za-z]+|[^A-Za-z]"
_NUMBER = r"\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b"
_MIN_SIGNATURE_CHARS = 12
_MAX_SIGNATURES = 3
MIN_LINE_CHARS = 12
"""Characters of a line that is recognized on its own."""
MIN_LINES_SHARE = 0.8
"""How many of the lines about to change one prompt must have written."""
MAX_FILE_BYTES = 400_000
_EDIT_TOOLS = ("Edit", "MultiEdit", "Write")


def error_signatures(text: str) -> list[str]:
    """Return the lines of an output that say what went wrong, without what varies."""
    found: list[str] = []
    for raw in re.sub(_ANSI, "", text[:MAX_ERROR_CHARS]).splitlines():
        line = raw.strip()
        if not re.search(_ERROR_LINE, line) or "│" in line or line[:2] in {"+ ", "- "}:
            continue
        plain = re.sub(_NUMBER, "0", re.sub(_PATH, r"\1", line).lower())
        plain = " ".join(plain.split())[:200]
        if len(plain) >= _MIN_SIGNATURE_CHARS and " " in plain and plain not in found:
            found.append(plain)
        if len(found) == _MAX_SIGNATURES:
            break
    return found


def program_of(command: str) -> str:
    """Return the program that a shell command runs, without ``cd`` and variables."""
    for part in re.split(r"&&|\|\||;|\n", command):
        words = [word for word in part.split() if "=" not in word.split("/")[0]]
        if words and words[0] not in {"cd", "export", "set", "source", "sudo", "time"}:
            return words[0].rpartition("/")[2][:40]
    return ""


def words_of(text: str) -> set[str]:
    """Return the words of a prompt."""
    return set(re.findall(_WORD, text.lower()))


def failure_offer(data: Data, command: str, output: str) -> tuple[str, str] | None:
    """Return the key and text of an offer for a failed command; none if unsure."""
    program = program_of(command)
    for signature in error_signatures(output):
        entry = data.get("failures", {}).get(f"{program}\n{signature}")
        if entry:
            return f"failure {entry['at']}", (
                f"The same error was fixed {_cite(entry)} with {_quote(entry['fix'])}."
            )
    return None


def prompt_offer(data: Data, prompt: str) -> tuple[str, str] | None:
    """Return the key and text of an offer for a prompt; none if unsure."""
    entry = best_prompt(data, prompt)
    if entry is None:
        return None
    text = f"Asked before, {_cite(entry)}: {_quote(entry['text'])}."
    if entry.get("reply"):
        text += f" The last reply: {_quote(entry['reply'])}."
    return f"prompt {entry['at']}", text


def best_prompt(data: Data, prompt: str) -> Data | None:
    """Return the earlier prompt that asks the same, if that is certain enough."""
    prompts, terms = data.get("prompts", []), data.get("terms", {})
    wanted = words_of(prompt)
    limit = max(RARE_SHARE * len(prompts), 2)
    scores: dict[int, float] = {}
    rare: dict[int, int] = {}
    total = 0.0
    for word in wanted:
        numbers = terms.get(word, ())
        weight = log((len(prompts) + 1) / max(len(numbers), 1))
        total += weight
        for number in numbers:
            scores[number] = scores.get(number, 0.0) + weight
            rare[number] = rare.get(number, 0) + (len(numbers) <= limit)
    if not scores:
        return None
    # Numbers grow with age: of equal prompts the newest is meant.
    best = min(scores, key=lambda number: (-scores[number], number))
    session = prompts[best]["at"][:8]
    others = (s for n, s in scores.items() if prompts[n]["at"][:8] != session)
    if (
        scores[best] < MIN_SHARE * total
        or rare[best] < MIN_WORDS
        or scores[best] < MIN_LEAD * max(others, default=0.0)
    ):
        return None
    found: Data = prompts[best]
    return found


def edit_offer(folder: str, name: str, call: Data) -> tuple[str, str] | None:
    """Return the prompt behind the lines that a call is about to change, if certain."""
    path = str(call.get("file_path", ""))
    data = _read_json(lines_file(folder, path))
    if not data:
        return None
    known, prompts = data.get("lines", {}), data.get("prompts", [])
    changed = {
        line
        for line in _lines_to_change(name, path, call)
        if len(line.strip()) >= MIN_LINE_CHARS
    }
    numbers = [known.get(line_key(line)) for line in changed]
    counts = {n: numbers.count(n) for n in set(numbers) if n is not None}
    if not counts:
        return None
    best = max(counts, key=lambda number: counts[number])
    if counts[best] < MIN_LINES_SHARE * len(numbers):
        return None
    entry = prompts[best]
    return f"lines {entry['at']}", (
        f"The lines about to change in {_quote(path.rpartition('/')[2])} were written"
        f" {_cite(entry)} for this prompt: {_quote(entry['text'])}."
    )


def _lines_to_change(name: str, path: str, call: Data) -> set[str]:
    """Return the lines that a call removes from a file."""
    if name == "Write":
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 (no pathlib)
                before = file.read(MAX_FILE_BYTES)
        except (OSError, ValueError):
            return set()
        return _lines(before) - _lines(call.get("content"))
    edits = call.get("edits") if name == "MultiEdit" else [call]
    found: set[str] = set()
    for one in edits if isinstance(edits, list) else ():
        found |= _lines(one.get("old_string")) - _lines(one.get("new_string"))
    return found


def _lines(text: object) -> set[str]:
    return {line.rstrip() for line in str(text or "")[:MAX_FILE_BYTES].split("\n")}


def line_key(line: str) -> str:
    """Return the key of a line; no line is stored."""
    raw = line.rstrip().encode("utf-8", "replace")
    return blake2b(raw, digest_size=6).hexdigest()


def lines_file(folder: str, path: str) -> str:
    """Return the file with the prompts behind the lines of a file."""
    name = blake2b(path.encode("utf-8", "replace"), digest_size=10).hexdigest()
    return f"{folder}/lines-{name}.json"


def start_text(data: Data) -> str:
    """Return a few lines about a project, for the start of a session.

    Each cites a session. As many as fit also say how it ended, the newest first.
    """
    entries = [one for one in data.get("start", []) if isinstance(one, dict)]
    lines = [
        f"- {_quote(_cut(entry['title'], _TITLE_TOKENS))}, {_cite(entry)}"
        for entry in entries
    ]
    # There must be room for how the newest one ended.
    while lines and _room(lines) < _TITLE_TOKENS:
        lines.pop()
    for number, entry in enumerate(entries[: len(lines)]):
        how = "open, no reply to" if entry.get("is_open") else "the last reply"
        lines[number] += f": {how} "
        room = min(_room(lines), _TITLE_TOKENS)
        if entry.get("said") and room >= _MIN_SAID_TOKENS:
            # The marks and what stands for the rest are tokens, too.
            lines[number] += _quote(_cut(entry["said"], room - 5))
        else:
            lines[number] = lines[number].removesuffix(f": {how} ")
    return "\n".join(lines)


def _room(lines: list[str]) -> float:
    """Return how many tokens may follow."""
    pieces = re.findall(_PIECE, "\n".join([_NOTICE, *lines]))
    return MAX_TOKENS - 5.0 - sum(map(_tokens, pieces))


def _cite(entry: Data) -> str:
    """Return day and place of an entry; ids of transcripts may be any text."""
    at = str(entry.get("at", ""))
    place = at if re.fullmatch(r"[0-9A-Za-z-]+( #[0-9A-Za-z-]+)?", at) else "?"
    day = str(entry.get("day", ""))
    return f"on {day} ({place})" if re.fullmatch(r"\d\d \w+", day) else f"({place})"


def _quote(text: str) -> str:
    """Return a text as one quotation that nothing in it can end.

    Neither a quotation mark, nor a tag that Claude Code writes around contexts, nor a
    character that hides or reorders others.
    """
    plain = "".join(one if one.isprintable() else " " for one in str(text)[:1000])
    for mark in "`\u02cb\u1fef\uff40":
        plain = plain.replace(mark, "'")
    # A space ends a tag, and leaves the meaning of a shell command as it is.
    plain = re.sub(r"<(?=[/A-Za-z!?])", "< ", plain)
    return f"`{' '.join(plain.split())[:160]}`"


def _tokens(piece: str) -> float:
    """Return how many tokens a word or another character takes at most, about.

    Measured with a public tokenizer: plain words take one per four letters, other runs
    of letters two for three, a digit or a mark one, and other scripts up to three per
    character.
    """
    if not piece.isascii():
        return 3.0 * len(piece)
    if piece.isalpha():
        is_plain = piece[1:].islower() and len(piece) <= _MAX_PLAIN_WORD
        return max(len(piece) / 4 if is_plain else len(piece) * 2 / 3, 1.0)
    return 0.0 if piece == " " else 1.0


def limit_tokens(text: str) -> str:
    """Cut a text that has too many tokens; a quotation is closed."""
    found = _cut(text, MAX_TOKENS - 5.0)
    return f"{found}`" if found.count("`") % 2 else found


def _cut(text: str, left: float) -> str:
    """Return the start of a text that has so many tokens."""
    for piece in re.finditer(_PIECE, text):
        left -= _tokens(piece.group())
        if left < 0:
            return f"{text[: piece.start()].rstrip()}…"
    return text


def answer(folder: str, event: Data) -> Data | None:
    """Return what to print for an event; nothing if there is no certain offer."""
    name = event.get("hook_event_name", "")
    if name == "PreToolUse":
        tool, call = event.get("tool_name"), event.get("tool_input")
        if tool not in _EDIT_TOOLS or not isinstance(call, dict):
            return None
        return _offer(folder, event, edit_offer(folder, str(tool), call))
    data = load_project(folder, str(event.get("cwd", "")))
    if data is None:
        return None
    found = None
    if name == "SessionStart":
        found = "start", start_text(data)
    elif name == "UserPromptSubmit":
        found = prompt_offer(data, str(event.get("prompt", "")))
    elif event.get("tool_name") == "Bash":
        command = str((event.get("tool_input") or {}).get("command", ""))
        output = _failure_text(event)
        found = failure_offer(data, command, output) if output else None
    return _offer(folder, event, found)


def _offer(folder: str, event: Data, found: tuple[str, str] | None) -> Data | None:
    """Return an offer as Claude Code reads it; nothing if it was made before."""
    key, text = found or ("", "")
    name = event.get("hook_event_name", "")
    if not text or _is_repeated(folder, str(event.get("session_id", "")), key):
        return None
    context = limit_tokens(f"{_NOTICE}\n{text}")
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": context}}


def _failure_text(event: Data) -> str:
    """Return the output of a command that failed; nothing if it did not."""
    if event.get("hook_event_name") == "PostToolUseFailure":
        return str(event.get("error", ""))
    response = event.get("tool_response")
    if not isinstance(response, dict):
        return ""
    is_failed = response.get("is_error") or response.get("interrupted")
    return (
        f"{response.get('stdout', '')}\n{response.get('stderr', '')}"
        if is_failed
        else ""
    )


def project_file(folder: str, directory: str) -> str:
    """Return the file of a project, by a hash of its directory."""
    name = blake2b(directory.encode("utf-8", "replace"), digest_size=10).hexdigest()
    return f"{folder}/{name}.json"


def load_project(folder: str, directory: str) -> Data | None:
    """Return what is known of the project in a directory or above it."""
    while directory.strip("/"):
        data = _read_json(project_file(folder, directory))
        if data is not None:
            return data
        directory = directory.rpartition("/")[0]
    return None


def _read_json(path: str) -> Data | None:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 (no pathlib)
            data = json.load(file)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def _is_repeated(folder: str, session: str, key: str) -> bool:
    """Note an offer; return whether the session was given it before, or is in it."""
    if not session.isascii() or not session.replace("-", "").isalnum():
        return True
    if session[:8] in key.split():
        return True
    path = f"{folder}/offered-{session[:64]}.txt"
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        descriptor = os.open(path, flags, 0o600)
        with open(descriptor, "r+", encoding="utf-8") as file:  # noqa: PTH123 (a descriptor)
            if key in file.read().splitlines():
                return True
            file.write(f"{key}\n")
    except OSError:
        return True
    return False


def main() -> None:
    """Answer one event; a hook must never fail."""
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    try:
        event = json.loads(sys.stdin.buffer.read(4_000_000))  # noqa: TID251 (no msgspec)
        found = answer(sys.argv[1], event) if isinstance(event, dict) else None
        if found is not None:
            sys.stdout.write(json.dumps(found))
    except Exception:  # noqa: BLE001, S110 (a hook must never disturb a session)
        pass


if __name__ == "__main__":
    main()
