"""What results of shell commands say: files that changed, and what git printed."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from bygones.model.base import DECODE_ERRORS, wire_name
from bygones.model.nodes import ChangedFile, GitOutput
from bygones.model.projects import name_remote


class DiffHunk(Struct, frozen=True, gc=False):
    """The lines of a hunk; nothing else is used."""

    lines: list[str] = []


class RawShellEdit(Struct, frozen=True, gc=False, rename=wire_name):
    """A changed file with its patch."""

    file_path: str | None = None
    hunks: list[DiffHunk] | None = None
    created: bool | None = None
    deleted: bool | None = None


class RawShellEdits(Struct, frozen=True, gc=False, rename=wire_name):
    """The changed files: the first five with a patch, and the paths of all."""

    files: list[RawShellEdit] | None = None
    changed_files: list[str] | None = None


def count_patch_lines(hunks: list[DiffHunk] | None) -> tuple[int, int]:
    """Return the number of added and of removed lines."""
    marks = [line[:1] for hunk in hunks or () for line in hunk.lines]
    return marks.count("+"), marks.count("-")


def list_changed_files(edits: RawShellEdits | None) -> tuple[ChangedFile, ...]:
    """Return all changed files; those without a patch last."""
    files: dict[str, ChangedFile] = {}
    for file in (edits.files or ()) if edits else ():
        if not file.file_path:
            continue
        added, removed = count_patch_lines(file.hunks)
        files[file.file_path] = ChangedFile(
            path=file.file_path,
            added_lines=added,
            removed_lines=removed,
            is_new_file=bool(file.created),
            is_deleted=bool(file.deleted),
            has_diff=bool(file.hunks),
        )
    for path in (edits.changed_files or ()) if edits else ():
        if path:
            files.setdefault(path, ChangedFile(path=path, has_diff=False))
    return tuple(files.values())


_LINE_START = rb'(?:^"|\\n)'
_PUSHED = re.compile(_LINE_START + rb"To ([^\s\"\\]{3,400})(?:\\r)?\\n")
_LISTED = re.compile(
    _LINE_START + rb"[^\s\"\\]+\\t([^\s\"\\]{3,400}) \((?:fetch|push)\)"
)
_ROOT_COMMIT = re.compile(rb"\[[^\]\"\\]{1,200} \(root-commit\) ([0-9a-f]{7,40})\] ")
_CREATED = re.compile(
    rb'Initialized empty Git repository in ((?:[^"\\]|\\.){1,1000}?)[/\\]+\.git[/\\]'
)
_MAX_REMOTES = 4
_MIN_LENGTH = 20

_decode_string = msgspec.json.Decoder(str).decode


def find_git_output(raw: Raw) -> GitOutput | None:
    """Return what git printed, from an output as it is in JSON.

    That is what `git push`, `git remote -v`, `git init` and the first `git commit` print.
    """
    content = bytes(raw)
    if len(content) < _MIN_LENGTH:
        return None
    remotes: list[bytes] = []
    # One byte is found ten times as fast as a few, and these many times as fast as a
    # pattern.
    has_arrow = b">" in content and b" -> " in content
    if has_arrow and (b"\\nTo " in content or content.startswith(b'"To ')):
        remotes += _PUSHED.findall(content)
    has_parenthesis = b")" in content
    if has_parenthesis and (b" (fetch)" in content or b" (push)" in content):
        remotes += _LISTED.findall(content)
    has_root = has_parenthesis and b" (root-commit) " in content
    if not remotes and not has_root:
        return None
    names = (name_remote(url.decode("utf-8", "replace")) for url in remotes)
    found = tuple(dict.fromkeys(name for name in names if name))[:_MAX_REMOTES]
    commit = root = ""
    if has_root and (match := _ROOT_COMMIT.search(content)):
        commit = match[1].decode()
        root = _created_directory(content)
    if not found and not commit:
        return None
    return GitOutput(found, commit, root)


def _created_directory(content: bytes) -> str:
    match = _CREATED.search(content)
    if match is None:
        return ""
    try:
        return _decode_string(b'"%b"' % match[1])
    except DECODE_ERRORS:
        return ""
