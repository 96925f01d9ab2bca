"""Adding members to JSON text, and removing them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.integrations.json_edit import (
    JsonEditError,
    add_member,
    append_item,
    parse_object,
    remove_owned,
)

OURS = {"command": "ours"}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from(["a", "hooks", "b", 'q"\\']), values)
hooks = st.dictionaries(
    st.sampled_from(["End", "Start"]), st.lists(values, max_size=3), max_size=2
)
indents = st.sampled_from([None, 0, 1, 2, 4, "\t"])


def written(value: object, indent: int | str | None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)


def is_ours(value: object) -> bool:
    return value == OURS


@given(objects, hooks | st.none(), indents, st.sampled_from(["", "\n", "\r\n"]))
def test_add_then_remove_restores_the_text(
    others: dict[str, object], own: object, indent: int | str | None, end: str
) -> None:
    before = others if own is None else {**others, "hooks": own}
    if own is None:
        before.pop("hooks", None)
    text = written(before, indent) + end

    with_one = append_item(text, ["hooks", "End"], OURS)
    with_both = add_member(with_one, ["servers", "bygones"], OURS)

    assert parse_object(with_both)["hooks"]["End"][-1] == OURS
    assert parse_object(with_both)["servers"] == {"bygones": OURS}
    rest = remove_owned(with_both, ["servers", "bygones"], is_ours)
    assert remove_owned(rest, ["hooks", "End"], is_ours) == text


@given(objects, indents)
def test_members_of_others_stay(others: dict[str, object], indent: object) -> None:
    text = written(others, indent)  # type: ignore[arg-type]

    assert remove_owned(text, ["a"], is_ours) == text
    assert remove_owned(text, ["a", "b"], is_ours) == text


@given(objects, indents)
def test_other_members_keep_their_values(
    others: dict[str, object], indent: object
) -> None:
    text = add_member(written(others, indent), ["new"], OURS)  # type: ignore[arg-type]

    assert json.loads(text) == others | {"new": OURS}
    assert list(json.loads(text)) == [*others, "new"]


def test_empty_container_of_the_user_stays() -> None:
    text = '{\n  "mcpServers": {},\n  "x": 1\n}\n'

    added = add_member(text, ["mcpServers", "bygones"], OURS)

    assert parse_object(added)["mcpServers"] == {"bygones": OURS}
    assert remove_owned(added, ["mcpServers", "bygones"], is_ours) == text


def test_other_members_may_be_added_in_between() -> None:
    text = add_member('{"a": 1}', ["servers", "bygones"], OURS)
    later = json.dumps(json.loads(text) | {"b": 2}, indent=2)

    rest = remove_owned(later, ["servers", "bygones"], is_ours)

    assert json.loads(rest) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "// x\n{}", "\ufeff{}", '{"a": 1,}', "\ud800"]
)
def test_text_that_is_not_an_object_is_rejected(text: str) -> None:
    with pytest.raises(JsonEditError):
        add_member(text, ["new"], OURS)


@pytest.mark.parametrize(
    "text",
    ['{"new": 1, "a": 2, "new": 1}', '{"b": [{"a": 1, "\\u0061": 2}]}'],
)
def test_duplicate_key_is_rejected(text: str) -> None:
    with pytest.raises(JsonEditError, match="appears twice"):
        add_member(text, ["other"], OURS)
    with pytest.raises(JsonEditError, match="appears twice"):
        remove_owned(text, ["a"], is_ours)


@pytest.mark.parametrize("path", [["a", "b"], ["a"]])
def test_value_in_place_of_an_object_is_rejected(path: list[str]) -> None:
    with pytest.raises(JsonEditError):
        add_member('{"a": 1}', path, OURS)
    with pytest.raises(JsonEditError):
        append_item('{"a": 1}', path, OURS)
