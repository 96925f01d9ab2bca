"""Store the files that a shell command changed, for `checkpoint.sh`.

Runs in a hook of Claude Code without site-packages, and imports as little as possible:
`json` and `hashlib` alone would take as long as all of it. Contents are files named by
their hash in a folder of the session, and `log.jsonl` says which call had which. Both
are imported into the archive as other files of a home.
"""

from __future__ import annotations

import _json
import os
import stat
import sys
import time

try:
    from _sha2 import sha256  # type: ignore[import-not-found, unused-ignore]
except ImportError:  # before Python 3.12
    from _sha256 import sha256  # type: ignore[import-not-found, unused-ignore]

MAX_FILE_BYTES = 1 << 20
MAX_FILES = 200
"""Files of one checkpoint."""
MAX_CHECKPOINT_BYTES = 16 << 20
MAX_SESSION_BYTES = 256 << 20
MAX_INDEX_BYTES = 8 << 20
"""A repository with a larger index takes too long to look at."""
KEEP_DAYS = 30
"""Folders of older sessions are deleted; the archive has them."""

State = dict[str, tuple[int, int, int, str]]
"""Modification time, status change time, size and hash of files, by path."""
Row = dict[str, object]
"""A file of a checkpoint; an empty hash means that it does not exist."""


class _ScannerContext:
    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}


def main(event: str, folder: str, root: str, call_id: str) -> None:
    """Store what changed since the last checkpoint.

    Without a call id, it is in the input of the hook.
    """
    call_id = call_id or _read_call_id(sys.stdin.buffer.read())
    state, total = _load_state(f"{folder}/.bygones-state")
    if not state:
        _delete_old_folders(folder)
    dirty = _read_status(f"{folder}/.bygones-status", root) if event == "post" else []
    if os.path.exists(f"{folder}/.bygones-news"):
        os.unlink(f"{folder}/.bygones-news")
    edited = _read_names(f"{folder}/.bygones-edited")
    writer = _Writer(folder, state, total, _start_time(folder, event))
    for path in dict.fromkeys((*state, *dirty, *edited)):
        writer.look_at(path, is_dirty=path in dirty)
    if event == "post":
        writer.add_bases(root)
        writer.forget_all_but({*dirty, *edited})
    writer.save(event, call_id)


def _read_call_id(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    try:
        scan = _json.make_scanner(_ScannerContext())  # type: ignore[arg-type]
        value, _ = scan(text, 0)
        return str(value.get("tool_use_id") or "")
    except (ValueError, StopIteration, AttributeError):
        return ""


def _load_state(path: str) -> tuple[State, int]:
    state: State = {}
    total, *rows = _read_names(path) or ["0"]
    for row in rows:
        modified, changed, size, digest, name = row.split(" ", 4)
        state[name] = (int(modified), int(changed), int(size), digest)
    return state, int(total)


def _read_names(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            return [os.fsdecode(name) for name in file.read().split(b"\n") if name]
    except OSError:
        return []


def _read_status(path: str, root: str) -> list[str]:
    """Return the files that git calls modified or untracked."""
    try:
        if os.stat(f"{root}/.git/index").st_size > MAX_INDEX_BYTES:
            return []
    except OSError:
        pass  # a worktree
    names = (line[3:] for line in _read_names(path))
    # Names with newlines and quotes are quoted; they are left out.
    return [f"{root}/{name}" for name in names if name and not name.startswith('"')]


def _start_time(folder: str, event: str) -> int:
    """Return when the command started; changes before that are not its own."""
    if event == "pre":
        return sys.maxsize
    try:
        return os.stat(f"{folder}/.bygones-start").st_mtime_ns
    except OSError:
        return sys.maxsize


class _Writer:
    def __init__(self, folder: str, state: State, total: int, start: int) -> None:
        self._folder = folder
        self._state = state
        self._total = total
        self._room = min(MAX_CHECKPOINT_BYTES, MAX_SESSION_BYTES - total)
        self._start = start
        self._rows: list[Row] = []

    def look_at(self, path: str, *, is_dirty: bool) -> None:
        """Store a file if it changed since it was last seen."""
        known = self._state.get(path)
        try:
            status = os.lstat(path)
        except OSError:
            if known[3] if known else is_dirty:
                self._add(path, "", is_during=True, is_first=known is None)
            self._state[path] = (0, 0, 0, "")
            return
        if not stat.S_ISREG(status.st_mode):
            return
        key = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        if known and known[:3] == key:
            return
        digest = self._store_file(path, status.st_size)
        is_during = status.st_ctime_ns >= self._start
        if digest and (known is None or known[3] != digest):
            self._add(path, digest, is_during=is_during, is_first=known is None)
        elif not digest and is_during:
            self._add(path, None, is_during=True)  # too large, or binary
        self._state[path] = (*key, digest)

    def _add(
        self,
        path: str,
        digest: str | None,
        *,
        is_during: bool,
        is_first: bool = False,
    ) -> None:
        if len(self._rows) < MAX_FILES:
            row: Row = {"path": path, "hash": digest, "during": is_during}
            if is_first:
                row["first"] = True
            self._rows.append(row)

    def _store_file(self, path: str, size: int) -> str:
        """Store the content of a file, and return its hash; empty if it is left out."""
        if size > min(MAX_FILE_BYTES, self._room) or len(self._rows) >= MAX_FILES:
            return ""
        flags = (
            os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        )
        try:
            handle = os.open(path, flags)
            try:
                raw = os.read(handle, MAX_FILE_BYTES + 1)
            finally:
                os.close(handle)
        except OSError:
            return ""
        return self._store(raw) if len(raw) <= MAX_FILE_BYTES else ""

    def _store(self, raw: bytes) -> str:
        if b"\0" in raw:
            return ""
        digest = str(sha256(raw).hexdigest())
        target = f"{self._folder}/{digest}"
        if not os.path.exists(target):
            draft = f"{self._folder}/.bygones-{os.getpid()}"
            with open(draft, "wb") as file:
                file.write(raw)
            os.replace(draft, target)
            self._room -= len(raw)
            self._total += len(raw)
        return digest

    def add_bases(self, root: str) -> None:
        """Add what git has of files that were unchanged before the command."""
        rows = [
            row
            for row in self._rows
            if row.get("first") and row["hash"] is not None and row["during"]
        ]
        rows = [row for row in rows if str(row["path"]).startswith(f"{root}/")]
        names = [str(row["path"])[len(root) + 1 :] for row in rows]
        if not root or not names:
            return
        blobs = _read_blobs(root, names)
        for row, candidates in zip(rows, blobs, strict=True):
            found = [
                raw for raw in candidates if raw is not None and len(raw) <= self._room
            ]
            digests = [self._store(raw) for raw in found]
            # What was staged or committed by the command is not what was there before.
            others = [digest for digest in digests if digest and digest != row["hash"]]
            if others:
                row["before"] = others[0]
            elif not found:
                row["before"] = ""  # a new file

    def forget_all_but(self, watched: set[str]) -> None:
        """Stop watching files that are neither changed nor edited any more."""
        self._state = {p: seen for p, seen in self._state.items() if p in watched}

    def save(self, event: str, call_id: str) -> None:
        rows = [
            f"{modified} {changed} {size} {digest} {path}"
            for path, (modified, changed, size, digest) in self._state.items()
        ]
        self._write_names(".bygones-state", [str(self._total), *rows])
        self._write_names(".bygones-files", list(self._state))
        if not self._rows:
            return
        fields = [
            f'"call_id": {_encode(call_id)}',
            f'"event": "{event}"',
            f'"at": {time.time():.6f}',
            f'"files": [{", ".join(map(_encode_row, self._rows))}]',
        ]
        line = f"{{{', '.join(fields)}}}\n".encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        handle = os.open(f"{self._folder}/log.jsonl", flags, 0o600)
        os.write(handle, line)
        os.close(handle)

    def _write_names(self, name: str, names: list[str]) -> None:
        draft = f"{self._folder}/{name}.new"
        with open(draft, "wb") as file:
            file.writelines(os.fsencode(f"{text}\n") for text in names)
        os.replace(draft, f"{self._folder}/{name}")


def _encode(text: str) -> str:
    return str(_json.encode_basestring_ascii(text))


def _encode_row(row: Row) -> str:
    parts = []
    for name, value in row.items():
        if isinstance(value, bool):
            text = "true" if value else "false"
        else:
            text = "null" if value is None else _encode(str(value))
        parts.append(f'"{name}": {text}')
    return f"{{{', '.join(parts)}}}"


def _read_blobs(root: str, names: list[str]) -> list[tuple[bytes | None, ...]]:
    """Return what the index and the last commit have of files."""
    wanted = "".join(f":{name}\nHEAD:{name}\n" for name in names)
    input_read, input_write = os.pipe()
    output_read, output_write = os.pipe()
    program = ["git", "-C", root, "cat-file", "--batch"]
    actions = [
        (os.POSIX_SPAWN_DUP2, input_read, 0),
        (os.POSIX_SPAWN_DUP2, output_write, 1),
        (os.POSIX_SPAWN_CLOSE, input_write),
        (os.POSIX_SPAWN_CLOSE, output_read),
    ]
    # An incomplete clone is not completed: that could run programs it configures.
    environ = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    child = os.posix_spawnp("git", program, environ, file_actions=actions)
    os.close(input_read)
    os.close(output_write)
    os.write(input_write, os.fsencode(wanted))
    os.close(input_write)
    found: list[bytes | None] = []
    with open(output_read, "rb") as output:
        for header in output:
            size = header.rstrip().rpartition(b" ")[2]
            if size.isdigit() and b" blob " in header:
                found.append(output.read(int(size)))
                output.read(1)
            else:
                found.append(None)  # missing
    os.waitpid(child, 0)
    found += [None] * (2 * len(names) - len(found))
    return list(zip(found[::2], found[1::2], strict=True))


def _delete_old_folders(folder: str) -> None:
    limit = time.time() - KEEP_DAYS * 86_400
    with os.scandir(os.path.dirname(folder)) as entries:
        old = [e.path for e in entries if e.is_dir() and e.stat().st_mtime < limit]
    for path in old:
        for name in os.listdir(path):
            os.unlink(f"{path}/{name}")
        os.rmdir(path)
