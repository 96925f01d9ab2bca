"""Redacting lines of transcripts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.model.metadata import ATTACHMENTS_BY_TYPE
from bygones.redact.engine import Redactor
from bygones.redact.json import PRIVATE_TYPES, redact_file, redact_line

KEY = "gh" + "p_" + "a1B2c3D4e5F6" * 3
REDACTOR = Redactor()


def test_line_without_secrets_is_byte_identical() -> None:
    raw = b'{ "type":"user",  "n":1.50, "text":"caf\\u00e9 \\/ x" }'

    assert redact_line(raw, REDACTOR) == (raw, ())


def test_redaction_has_the_path_of_its_text() -> None:
    line = {"a": [{"b": "x"}, {f"c {KEY}": [KEY]}], "d": "/home/ada"}

    _, found = redact_file(json.dumps(line).encode(), Redactor())

    assert [item.path for item in found] == [
        *(".a[1].c [redacted github-token]", ".a[1].c [redacted github-token][0]"),
        ".d",
    ]


def test_secret_is_found_in_escaped_json() -> None:
    spelled = "".join(f"\\u{ord(char):04x}" for char in KEY)

    redacted, found = redact_file(f'{{"a": ["{spelled}", 1]}}'.encode(), REDACTOR)

    assert redacted == b'{"a":["[redacted github-token]",1]}'
    assert [item.kind for item in found] == ["github-token"]


def test_field_names_are_redacted_and_stay_distinct() -> None:
    raw = json.dumps({f"/home/{name}/x": name for name in ("ada", "bob")}).encode()

    redacted, _ = redact_file(raw, REDACTOR)

    assert json.loads(redacted or b"") == {"~/x": "ada", "~/x (2)": "bob"}


def test_token_in_a_field_name_is_redacted() -> None:
    raw = json.dumps({f"x_{KEY}": {"name": f"mcp__{KEY}"}}).encode()

    redacted, _ = redact_file(raw, REDACTOR)

    assert KEY.encode() not in (redacted or b"")


def test_value_of_a_field_with_a_secret_name_is_redacted() -> None:
    fields = {"dbPassword": "a1b2!c3d4", "password": "string", "token": "next"}

    redacted, found = redact_file(json.dumps(fields).encode(), REDACTOR)

    assert json.loads(redacted or b"") == {
        "dbPassword": "[redacted named-secret]",
        "password": "string",
        "token": "next",
    }
    assert len(found) == 1


def test_value_of_a_password_field_may_be_an_ordinary_word() -> None:
    raw = json.dumps({"password": "sunshine", "hint": "password: sunshine"}).encode()

    redacted, _ = redact_file(raw, REDACTOR)

    assert json.loads(redacted or b"") == {
        "password": "[redacted named-secret]",
        "hint": "password: sunshine",
    }


@pytest.mark.parametrize("value", ["Forgot it?", "string", "${VAULT}", "<password>"])
def test_placeholder_in_a_password_field_is_kept(value: str) -> None:
    raw = json.dumps({"password": value}).encode()

    assert redact_file(raw, REDACTOR) == (raw, ())


def test_offsets_in_a_named_field_are_relative_to_the_value() -> None:
    value = "ada1/a1b2!c3d4"
    _, found = redact_file(json.dumps({"password": value}).encode(), REDACTOR)

    assert [(item.start, item.end) for item in found] == [(0, len(value))]


PNG = "iVBORw0KGgo" + "A" * 40
PICTURE = {"type": "base64", "media_type": "image/png", "data": PNG}


@pytest.mark.parametrize(
    "holding",
    [
        {"type": "base64", "data": KEY},
        {"type": "base64", "note": KEY},
        PICTURE | {"note": KEY},
        PICTURE | {"data": PNG + " " + KEY},
        PICTURE | {"media_type": "text/plain", "data": KEY},
    ],
)
def test_text_declared_as_base64_is_redacted(holding: dict[str, str]) -> None:
    redacted, _ = redact_file(json.dumps(holding).encode(), REDACTOR)

    assert KEY.encode() not in (redacted or b"")


def test_image_data_is_unchanged() -> None:
    chance = PNG + "/AKIA" + "Q4RT7YHU2KLM5NPW" + "/A"
    raw = json.dumps({"source": PICTURE | {"data": chance}, "text": KEY}).encode()

    redacted, _ = redact_file(raw, REDACTOR)

    assert json.loads(redacted or b"")["source"]["data"] == chance


INTERNAL_ATTACHMENTS = sorted(
    name for name, kind in ATTACHMENTS_BY_TYPE.items() if not kind.is_exported
)


@pytest.mark.parametrize("kind", sorted(PRIVATE_TYPES))
def test_private_record_is_dropped(kind: str) -> None:
    record = json.dumps({"type": kind, "text": "x"}).encode()

    assert redact_line(record, REDACTOR)[0] is None
    assert redact_line(record[:-1], REDACTOR)[0] is None


@pytest.mark.parametrize("kind", [*INTERNAL_ATTACHMENTS, "attachment_of_tomorrow"])
@pytest.mark.parametrize("uuid", ["a", None, 7])
def test_private_attachment_keeps_its_place_and_nothing_else(
    kind: str, uuid: object
) -> None:
    record = {"type": "attachment", "uuid": uuid, "parentUuid": "p"}
    content = {
        "attachment": {"type": kind, "text": "x"},
        "rendered": [{"content": "x"}],
    }

    redacted, _ = redact_line(json.dumps(record | content).encode(), REDACTOR)

    assert json.loads(redacted or b"") == record | {"attachment": {"type": kind}}


@pytest.mark.parametrize(
    "record",
    [
        {"type": "api-request-secrets", "text": "canary"},
        {"type": "api-request-secrets", "uuid": "", "text": "canary"},
        {"text": "canary"},
        {"type": None, "text": "canary"},
        {"type": ["user"], "text": "canary"},
    ],
)
def test_unknown_record_without_a_uuid_is_private(record: object) -> None:
    assert redact_line(json.dumps(record).encode(), REDACTOR)[0] is None


def test_line_that_is_not_a_record_is_replaced() -> None:
    assert redact_line(b'["canary"]', REDACTOR)[0] == b"[]"
    assert redact_line(b'"canary"', REDACTOR)[0] == b"[]"


@pytest.mark.parametrize("value", ["canary", ["canary"], {"type": ["canary"]}, 7])
def test_malformed_attachment_is_private(value: object) -> None:
    record = {"type": "attachment", "uuid": "a", "attachment": value}

    redacted, _ = redact_line(json.dumps(record).encode(), REDACTOR)

    assert json.loads(redacted or b"") == record | {"attachment": {"type": None}}


def test_damaged_attachment_is_private() -> None:
    raw = b'{"type":"attachment","uuid":"a","attachment":{"type":"date","x":"canary'

    assert redact_line(raw, REDACTOR)[0] == b"{"


def test_unknown_record_of_the_tree_is_public() -> None:
    raw = b'{"type":"new-notice","uuid":"a","text":"x"}'

    assert redact_line(raw, REDACTOR) == (raw, ())


def test_damaged_line_is_public_only_if_it_names_a_public_type() -> None:
    assert redact_line(b'{"type":"user","message":{"con', REDACTOR)[0]
    assert redact_line(b'se follow CLAUDE.md"}]}}', REDACTOR)[0] == b"{"
    glued = b'{"type":"user","mess{"type":"api-request-blob","message":{}}'
    assert redact_line(glued, REDACTOR)[0] is None


def test_records_with_account_data_are_private() -> None:
    assert {"session_context", "credential_org", "bridge-session"} <= PRIVATE_TYPES


@given(st.binary(max_size=60))
def test_any_bytes_can_be_redacted(raw: bytes) -> None:
    line = raw.replace(b"\n", b" ") + b" " + KEY.encode()

    redacted, found = redact_file(line, REDACTOR)

    assert KEY.encode() not in redacted
    assert found
