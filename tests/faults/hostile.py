"""Homes whose shape is chosen to make a stage do more work than their size warrants.

Each function returns the records of a session of about ``n`` records; sessions of 2 n
records must not cost much more than twice as much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.build import session_id

Record = dict[str, Any]
SESSION = session_id(1)


def uuid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def record(
    number: int, parent: int | None, content: object = "", **fields: object
) -> Record:
    """Return a prompt if its number is odd, a reply if it is even."""
    role = "user" if number % 2 else "assistant"
    text = content or f"text {number}"
    message: Record = {"role": role, "content": text}
    if role == "assistant":
        blocks = text if isinstance(text, list) else [{"type": "text", "text": text}]
        usage = {"input_tokens": 1, "output_tokens": 1}
        message |= {"id": f"msg_{number}", "model": "m", "content": blocks}
        message |= {"type": "message", "usage": usage}
    return {
        "parentUuid": None if parent is None else uuid(parent),
        "isSidechain": False,
        "cwd": "/srv/app",
        "sessionId": SESSION,
        "version": "2.1.0",
        "type": role,
        "message": message,
        "uuid": uuid(number),
        "timestamp": f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:00Z",
        **fields,
    }


def chain(n: int, **fields: object) -> list[Record]:
    return [record(at, at - 1 if at > 1 else None, **fields) for at in range(1, n + 1)]


def branches(n: int) -> list[Record]:
    return [record(1, None), *(record(2 * at + 1, 1) for at in range(1, n))]


def comb(n: int) -> list[Record]:
    """A chain, each reply of which has a second, abandoned answer."""
    teeth = [record(10_001 + 2 * at, 2 * at) for at in range(1, n // 2)]
    return chain(n) + teeth


def nested_branches(n: int) -> list[Record]:
    """A chain with a second answer at each step, where the first step is tried last."""
    later = [record(10_001 + 2 * at, 2 * at) for at in range(n // 2 - 1, 0, -1)]
    return chain(n) + later


def branches_of_one_turn(n: int) -> list[Record]:
    """A prompt and a chain of answers, to each of which a prompt was abandoned."""
    records = [record(1, None), record(2, 1)]
    for at in range(2, n // 2):
        records += [record(2 * at, 2 * at - 2), record(10_001 + 2 * at, 2 * at - 2)]
    return [*records, record(n, n - 2)]


def nested_branches_of_one_turn(n: int) -> list[Record]:
    """A chain of answers, and a prompt to each, to the first one last."""
    answers = [record(2 * at, 2 * at - 2 or 1) for at in range(1, n // 2)]
    later = [record(10_001 + 2 * at, 2 * at) for at in range(n // 2 - 2, 0, -1)]
    return [record(1, None), *answers, *later]


def duplicates(n: int) -> list[Record]:
    return [record(1, None), *(record(3, 1, f"version {at}") for at in range(n))]


def self_parents(n: int) -> list[Record]:
    return [record(at, at) for at in range(1, n)]


def cycle(n: int) -> list[Record]:
    return [record(at, at % n + 1) for at in range(1, n + 1)]


def orphans(n: int) -> list[Record]:
    return [record(at, 100_000 + at) for at in range(1, n)]


def newest_first(n: int) -> list[Record]:
    return chain(n)[::-1]


def titles(n: int) -> list[Record]:
    return chain(4) + [
        {"type": "summary", "summary": f"title {at}", "leafUuid": uuid(at % 4 + 1)}
        for at in range(n)
    ]


def results_of_one_call(n: int) -> list[Record]:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    return [record(1, None), record(2, 1, [call])] + [
        record(
            2 * at + 1,
            2,
            [{"type": "tool_result", "tool_use_id": "toolu_1", "content": f"{at}"}],
        )
        for at in range(1, n)
    ]


def calls_of_one_message(n: int) -> list[Record]:
    calls = [
        {"type": "tool_use", "id": f"toolu_{at}", "name": "Bash", "input": {}}
        for at in range(n)
    ]
    return [record(1, None), record(2, 1, calls)]


def parts_of_one_message(n: int) -> list[Record]:
    parts = [record(2 * at, 2 * at - 2 or 1) for at in range(1, n)]
    for part in parts:
        part["message"]["id"] = "msg_1"
    return [record(1, None), *parts]


def inline_agents(n: int) -> list[Record]:
    agents = [
        one
        for at in range(50, 50 + n // 2)
        for one in (
            record(2 * at + 1, None, isSidechain=True),
            record(2 * at + 2, 2 * at + 1, isSidechain=True),
        )
    ]
    return chain(4) + agents


def inline_warm_up(n: int) -> list[Record]:
    warm_up = chain(n, isSidechain=True)
    warm_up[0]["message"]["content"] = "Warmup"
    return [*warm_up, record(100_001, None), record(100_002, 100_001)]


def directories(n: int) -> list[Record]:
    return [
        one | {"cwd": f"/srv/{at}", "gitBranch": f"b{at}", "version": f"2.1.{at}"}
        for at, one in enumerate(chain(n))
    ]


def queue(n: int) -> list[Record]:
    return chain(4) + [
        {"type": "queue-operation", "operation": "enqueue", "content": f"{at}"}
        | {"sessionId": SESSION, "timestamp": "2026-01-01T00:00:00Z"}
        for at in range(n)
    ]


def keys_with_equal_names(n: int) -> list[Record]:
    """Names of fields that are the same when they are redacted."""
    fields = {f"/home/user{at}/x": at for at in range(n)}
    call = {"type": "tool_use", "id": "toolu_1", "name": "X", "input": fields}
    return [record(1, None), record(2, 1, [call])]


SHAPES: dict[str, Callable[[int], list[Record]]] = {
    shape.__name__: shape
    for shape in (
        *(
            chain,
            branches,
            comb,
            nested_branches,
            branches_of_one_turn,
            nested_branches_of_one_turn,
            duplicates,
            self_parents,
            cycle,
            orphans,
        ),
        *(newest_first, titles, results_of_one_call, calls_of_one_message),
        *(parts_of_one_message, inline_agents, inline_warm_up, directories, queue),
        keys_with_equal_names,
    )
}
