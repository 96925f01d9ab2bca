"""Hypothesis strategies: values, records, damaged lines and trees."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from bygones.model.metadata import (
    ATTACHMENTS_BY_TYPE,
    METADATA_BY_TYPE,
    RECORDS_BY_TYPE,
    QueueOperationRecord,
)
from bygones.model.outcomes import OUTCOME_TYPES
from bygones.model.records import (
    BLOCKS_BY_TYPE,
    SYSTEM_SUBTYPES,
    ProgressData,
    UserRecord,
)
from bygones.parse.decode import field_names
from tests import build
from tests.build import Written

__all__ = [
    "any_lines",
    "damaged_lines",
    "json_values",
    "mutated_records",
    "odd_values",
    "outcomes",
    "raw_lines",
    "records",
    "spliced_lines",
    "texts",
    "trees",
    "user_texts",
]

texts = st.text(max_size=40)
"""Texts of any characters that can be written, also zero and line separators."""

odd_values: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.just([]),
    st.just({}),
    st.just([None, "bare", 7, {"type": "text", "text": None}, {"type": 5}]),
    st.just({"type": "text", "text": "in an object"}),
)
"""Values of the wrong kind for nearly every field."""

json_values: st.SearchStrategy[Any] = st.recursive(
    odd_values,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
    ),
    max_leaves=12,
)

_names = st.sampled_from(["a", "b", "c", "d", "e", "gone"])
_calls = st.sampled_from(["toolu_1", "toolu_2"])
_tags = st.sampled_from(
    [
        "system-reminder",
        "command-name",
        "command-args",
        "local-command-stdout",
        "bash-input",
        "task-notification",
        "ide_selection",
        "teammate-message",
    ]
)


@st.composite
def user_texts(draw: st.DrawFn) -> str:
    """Return a text with tags of Claude Code, closed or not."""
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        tag = draw(_tags)
        closing = draw(st.sampled_from([f"</{tag}>", ""]))
        parts += [draw(texts), f"<{tag}>", draw(texts), closing]
    return "".join([*parts, draw(texts)])


@st.composite
def _blocks(draw: st.DrawFn) -> Written:
    kind = draw(st.sampled_from([*BLOCKS_BY_TYPE, "from-tomorrow"]))
    match kind:
        case "text":
            return build.text(draw(user_texts()))
        case "thinking":
            return build.thinking(draw(texts))
        case "tool_use":
            given = draw(st.dictionaries(st.sampled_from(_INPUTS), odd_values))
            return build.tool_use("Bash", id=draw(_calls), **given)
        case "tool_result":
            content = draw(texts | st.lists(st.builds(build.text, texts), max_size=2))
            return {"type": kind, "tool_use_id": draw(_calls), "content": content}
        case "image":
            return build.image()
        case _:
            return {"type": kind, "content": draw(texts)}


_INPUTS = ["command", "file_path", "path", "pattern", "prompt", "content"]

outcomes: st.SearchStrategy[Any] = st.one_of(
    texts,
    st.dictionaries(
        st.sampled_from(
            sorted({sign for kind in OUTCOME_TYPES for sign in field_names(kind)})
        ),
        odd_values,
        max_size=4,
    ),
    st.lists(st.builds(build.text, texts), max_size=2),
)
"""Structured results: of known shapes with odd values, texts, lists."""

_contents = st.one_of(user_texts(), st.lists(_blocks(), max_size=4))


@st.composite
def records(draw: st.DrawFn) -> Written:  # noqa: PLR0911 (one line a kind)
    """Return a valid record of any type."""
    place: dict[str, Any] = {"uuid": draw(st.uuids()).hex}
    place["parent"] = draw(st.none() | _names)
    kind = draw(st.sampled_from([*_TREE, *METADATA_BY_TYPE, "from-tomorrow"]))
    match kind:
        case "user":
            return build.prompt(draw(_contents), **place)
        case "assistant":
            return build.reply(draw(st.lists(_blocks(), max_size=4)), **place)
        case "tool result":
            outcome = draw(outcomes)
            return build.tool_result("toolu_1", draw(texts), outcome=outcome, **place)
        case "system":
            subtype = draw(st.sampled_from([*SYSTEM_SUBTYPES, "from-tomorrow"]))
            return build.system(subtype, draw(user_texts()), **place)
        case "attachment":
            name = draw(st.sampled_from([*ATTACHMENTS_BY_TYPE, "from-tomorrow"]))
            return build.attachment(name, prompt=draw(texts), **place)
        case "progress":
            return build.progress(draw(st.sampled_from(ProgressData.types)), **place)
        case _:
            known = field_names(METADATA_BY_TYPE.get(kind, QueueOperationRecord))
            names = sorted(known & {"summary", "content", "aiTitle", "tag"})
            return build.meta(kind, **{name: draw(texts) for name in names})


_TREE = ["user", "assistant", "tool result", "system", "attachment", "progress"]


@st.composite
def mutated_records(draw: st.DrawFn) -> Written:
    """Return a record with unexpected values in one or more fields, at any depth."""
    record = copy.deepcopy(draw(records()))
    known = sorted(field_names(RECORDS_BY_TYPE.get(record["type"], UserRecord)))
    record[draw(st.sampled_from(known))] = copy.deepcopy(draw(json_values))
    for _ in range(draw(st.integers(1, 3))):
        at: Any = record
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(at[key], dict | list) and draw(st.booleans()):
                at = at[key]
                continue
            at[key] = copy.deepcopy(draw(json_values))
            break
    return record


_ODD_JSON = st.sampled_from(
    [
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"1" * 400,
        b"1" * 5000,
        rb'"\ud83d"',
        rb'"\ude00\ud83d"',
        b'"\xff\xfe"',
        b'"\xf0\x9f\x98"',
        b'"\0\x01"',
        b"[" * 60 + b"]" * 60,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":1,"a":2}',
    ]
)


@st.composite
def damaged_lines(draw: st.DrawFn) -> bytes:  # noqa: PLR0911 (one line a mishap)
    """Return a damaged line."""
    raw = build.line(draw(records() | mutated_records()))
    other = build.line(draw(records()))
    at = draw(st.integers(0, len(raw)))
    match draw(st.integers(0, 9)):
        case 0:
            return raw[:at]
        case 1:
            return raw[:at] + other
        case 2:
            return raw + other
        case 3:
            return b"\0" * draw(st.integers(1, 50)) + raw
        case 4:
            return raw[:at] + b"\0" * draw(st.integers(1, 50)) + other
        case 5:
            return b"\xef\xbb\xbf" + raw + b"\r"
        case 6:
            return b'{"odd":' + draw(_ODD_JSON) + b"," + raw[1:]
        case 7:
            return raw[:-1] + b',"type":' + draw(_ODD_JSON) + b"}"
        case 8:
            return raw[:at] + draw(st.binary(max_size=4)) + raw[at:]
        case _:
            return raw[at:] + other


raw_lines = st.one_of(
    st.binary(max_size=60),
    st.builds(build.line, json_values),
    st.builds(build.line, records()),
    st.builds(build.line, mutated_records()),
    damaged_lines(),
).map(lambda raw: raw.replace(b"\n", b" "))
"""What may stand between two newlines."""

any_lines = st.builds(
    build.source_line, raw_lines, offset=st.sampled_from([0, 900]), ended=st.booleans()
)


@st.composite
def spliced_lines(draw: st.DrawFn) -> tuple[bytes, list[Written]]:
    """Return a damaged line, and the records on it that are intact.

    Intact records follow each other directly, after zero bytes, or after the start of
    a truncated record: the three known kinds of damage. A record of an unknown type
    cannot be distinguished from a part of the truncated one.
    """
    parts: list[bytes] = []
    whole: list[Written] = []
    for _ in range(draw(st.integers(1, 4))):
        before = draw(st.sampled_from(["", "zeros", "torn", "torn zeros"]))
        if "torn" in before:
            torn = build.line(draw(records()))
            parts.append(torn[: draw(st.integers(1, len(torn) - 1))])
        if "zeros" in before:
            parts.append(b"\0" * draw(st.integers(1, 9)))
        whole.append(
            draw(records().filter(lambda record: record["type"] in RECORDS_BY_TYPE))
        )
        parts.append(build.line(whole[-1]))
    return b"".join(parts), whole


@st.composite
def trees(draw: st.DrawFn, max_size: int = 12) -> list[tuple[str, str | None]]:
    """Return names and parents: chains, rewinds, missing parents, self-parents and cycles.

    Each name occurs once. A parent may come after its child.
    """
    names = [f"r{number}" for number in range(draw(st.integers(1, max_size)))]
    parents = st.sampled_from([None, "gone", "lost", *names])
    pairs = []
    for number, name in enumerate(names):
        earlier = [names[number - 1]] if number else [None]
        parent = draw(st.sampled_from(earlier) | parents)
        pairs.append((name, parent))
    return draw(st.permutations(pairs)) if draw(st.booleans()) else pairs
