"""Generate sessions of any size, the same ones every time, in little time and memory.

Word frequencies are like those of real text. Most bytes are tool results, written twice
as Claude Code writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

__all__ = [
    "append_record",
    "session_path",
    "write_session",
    "write_small_sessions",
]

_VOCABULARY = 20_000
_SEA = 500_000
"""Words, of which texts are cut out."""
_GOLDEN = 0.6180339887498949
_LETTERS = "etaoinshrdlucmfw"
_START = 1_750_000_000
_STRIDE = 7_919 * 101
_SESSION = 1 << 120
_RECORD = 1 << 122
_APPENDED = 1 << 124
_SMALL_FILES_EACH = 200


def session_path(home: Path, number: int, *, project: str = "-srv-made") -> Path:
    """Return where a home has the session of this number."""
    return home / "projects" / project / f"{_session(number)}.jsonl"


def write_session(path: Path, *, size: int, results: int = 6_000) -> None:
    """Write a session of at least ``size`` bytes, its results this long."""
    sea = _sea()
    with path.open("wb") as file:
        number = 0
        while file.tell() < size:
            turn = _turn(path.stem, number, sea, results, is_first=not number)
            file.writelines(turn)
            number += 1


def write_small_sessions(home: Path, count: int) -> None:
    """Write so many sessions of one short turn each."""
    sea = _sea()
    for number in range(count):
        project = f"-srv-made-{number // _SMALL_FILES_EACH}"
        path = session_path(home, number, project=project)
        path.parent.mkdir(parents=True, exist_ok=True)
        turn = _turn(path.stem, number, sea, 300, is_first=True)
        path.write_bytes(b"".join(turn))


def append_record(path: Path, size: int, *, number: int) -> None:
    """Append what a person said last to a session: one record of ``size`` bytes."""
    with path.open("rb+") as file:
        file.seek(max(path.stat().st_size - 1_000_000, 0))
        last = json.loads(file.read().splitlines()[-1])
        last.pop("requestId", None)
        said = last | {
            "type": "user",
            "parentUuid": last["uuid"],
            "uuid": str(UUID(int=_APPENDED + number)),
            "message": {"role": "user", "content": ""},
        }
        room = size - len(json.dumps(said)) - 1
        said["message"] = {"role": "user", "content": _sea()[:room]}
        file.write(json.dumps(said).encode() + b"\n")


def _session(number: int) -> str:
    return str(UUID(int=_SESSION + number))


def _record(number: int) -> str:
    return str(UUID(int=_RECORD + number))


def _sea() -> str:
    """Return words in an order without end, each as often as its rank lets it."""
    ranks = (int(_VOCABULARY ** (turn * _GOLDEN % 1)) for turn in range(1, _SEA))
    return " ".join(map(_word, ranks))


def _word(rank: int) -> str:
    letters = ""
    while rank:
        rank, letter = divmod(rank, len(_LETTERS))
        letters += _LETTERS[letter]
    return letters


def _turn(
    session: str, number: int, sea: str, results: int, *, is_first: bool
) -> Iterator[bytes]:
    """Yield a prompt, a use of a tool, its result and an answer, as lines."""
    at = number * _STRIDE % (len(sea) - results - 1_000)
    result = sea[at : at + results]
    call, message = f"toolu_{number:024x}", f"msg_{number:024x}"
    bodies = (
        f'"type":"user","message":{{"role":"user","content":"{sea[at : at + 120]}"}}',
        _assistant(
            f"{message}a",
            f'{{"type":"tool_use","id":"{call}","name":"Bash",'
            f'"input":{{"command":"{sea[at : at + 60]}"}}}}',
        ),
        (
            '"type":"user","message":{"role":"user","content":[{"type":"tool_result",'
            f'"tool_use_id":"{call}","content":"{result}"}}]}},'
            f'"toolUseResult":{{"stdout":"{result}","stderr":"","interrupted":false}}'
        ),
        _assistant(f"{message}b", f'{{"type":"text","text":"{sea[at : at + 400]}"}}'),
    )
    parent = "null" if is_first else f'"{_record(number * len(bodies) - 1)}"'
    for step, body in enumerate(bodies, number * len(bodies)):
        moment = datetime.fromtimestamp(_START + step, UTC)
        line = (
            f'{{"parentUuid":{parent},"isSidechain":false,"userType":"external",'
            f'"cwd":"/srv/made","sessionId":"{session}","version":"2.1.0",'
            f'"gitBranch":"main",{body},"uuid":"{_record(step)}",'
            f'"timestamp":"{moment:%Y-%m-%dT%H:%M:%S}.000Z"}}\n'
        )
        yield line.encode()
        parent = f'"{_record(step)}"'


def _assistant(message: str, block: str) -> str:
    return (
        f'"type":"assistant","requestId":"req_{message}","message":{{"id":"{message}",'
        '"type":"message","role":"assistant","model":"claude-opus-4-20250514",'
        f'"content":[{block}],"stop_reason":null,"stop_sequence":null,"usage":'
        '{"input_tokens":8,"cache_creation_input_tokens":900,'
        '"cache_read_input_tokens":30000,"output_tokens":120}}'
    )
