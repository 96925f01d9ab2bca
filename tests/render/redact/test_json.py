"""Lines of transcripts without what must not leave."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.render.redact import Redactor, redacted_line
from recollect.render.redact.json import PRIVATE

KEY = "gh" + "p_" + "a1B2c3D4e5F6" * 3
REDACTOR = Redactor()


def test_a_line_without_secrets_stays_byte_for_byte() -> None:
    raw = b'{ "type":"user",  "n":1.50, "text":"caf\\u00e9 \\/ x" }'

    assert redacted_line(raw, REDACTOR) == (raw, ())


def test_a_secret_is_found_however_it_is_spelled() -> None:
    spelled = "".join(f"\\u{ord(sign):04x}" for sign in KEY)

    told, found = redacted_line(f'{{"a": ["{spelled}", 1]}}'.encode(), REDACTOR)

    assert told == b'{"a":["[redacted github-token]",1]}'
    assert [one.kind for one in found] == ["github-token"]


def test_names_of_fields_are_redacted_and_stay_apart() -> None:
    raw = json.dumps({f"/home/{name}/x": name for name in ("ada", "bob")}).encode()

    told, _ = redacted_line(raw, REDACTOR)

    assert json.loads(told or b"") == {"~/x": "ada", "~/x (2)": "bob"}


@pytest.mark.parametrize("kind", sorted(PRIVATE))
def test_a_private_record_never_leaves(kind: str) -> None:
    record = json.dumps({"type": kind, "text": "x"}).encode()
    attached = {"type": "attachment", "attachment": {"type": kind}}

    assert redacted_line(record, REDACTOR)[0] is None
    assert redacted_line(json.dumps(attached).encode(), REDACTOR)[0] is None
    assert redacted_line(record[:-1], REDACTOR)[0] is None


def test_what_holds_accounts_is_private() -> None:
    assert {"session_context", "credential_org", "bridge-session"} <= PRIVATE


@given(st.binary(max_size=60))
def test_any_bytes_can_be_redacted(raw: bytes) -> None:
    line = raw.replace(b"\n", b" ") + b" " + KEY.encode()

    told, found = redacted_line(line, REDACTOR)

    assert told is not None
    assert KEY.encode() not in told
    assert found
