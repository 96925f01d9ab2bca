"""Values of a column for passwords or tokens are redacted."""

from __future__ import annotations

import json
import re
from time import process_time

import pytest

from bygones.redact.engine import Redactor
from bygones.redact.tables import find_column_values

REDACTOR = Redactor()
VALUES = ("corner7Lantern", "m0onlit-barn")
TABLES = {
    "psql": "\n id | password       | ok\n----+----------------+----\n"
    "  1 | corner7Lantern | t\n  2 | m0onlit-barn   | f\n(2 rows)",
    "mysql": "+----+----------------+\n| id | password       |\n+----+----------------+\n"
    "|  1 | corner7Lantern |\n|  2 | m0onlit-barn   |\n+----+----------------+\n",
    "sqlite": "id  password\n--  --------------\n1   corner7Lantern\n2   m0onlit-barn",
    "PowerShell": "Name   Password       Id\n----   --------       --\n"
    "a      corner7Lantern  1\nb      m0onlit-barn    2",
    "single spaces": "Name Password\n---- --------------\na    corner7Lantern\n"
    "b    m0onlit-barn",
    "long values": "N  Password  Id\n-  --------  --\na  corner7Lantern  1\n"
    "b  m0onlit-barn  2",
    "kubectl": "NAME   DB_PASSWORD      AGE\na      corner7Lantern   1d\n"
    "b      m0onlit-barn     2d",
    "right": "  N        PASSWORD  AGE\n  a  corner7Lantern  1d\n  b    m0onlit-barn  2d",
    "markdown": "| User | Password |\n|---|---|\n| a | `corner7Lantern` |\n"
    "| b | m0onlit-barn |",
    "box": "┌────┬────────────────┐\n│ id │ password       │\n├────┼────────────────┤\n"
    "│ 1  │ corner7Lantern │\n│ 2  │ m0onlit-barn   │\n└────┴────────────────┘",
    "heavy titles": "┏━━━━━━┳━━━━━━━━━━━━━━━━┓\n┃ User ┃ Password       ┃\n"
    "┡━━━━━━╇━━━━━━━━━━━━━━━━┩\n│ a    │ corner7Lantern │\n│ b    │ m0onlit-barn   │\n",
    "CSV": "user,password,role\na,corner7Lantern,admin\nb,m0onlit-barn,user",
    "quoted CSV": '"user","password"\n"a, b","corner7Lantern"\n"c""d","m0onlit-barn"',
    "semicolons": "user;passwort;rolle\na;corner7Lantern;x\nb;m0onlit-barn;y",
    "tabs": "user\tpassword\na\tcorner7Lantern\nb\tm0onlit-barn",
    "file with line numbers": "     1→password,user\n     2→corner7Lantern,a\n"
    "     3→m0onlit-barn,b",
    "psql with line numbers": "     1→ id | password\n     2→----+----------------\n"
    "     3→  1 | corner7Lantern\n     4→  2 | m0onlit-barn",
}


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
@pytest.mark.parametrize("escapes", [0, 1, 2])
def test_values_of_a_column_for_passwords_are_redacted(
    table: str, escapes: int
) -> None:
    text = f"Here it is:\n\n{table}\n\nDone."
    for _ in range(escapes):
        text = json.dumps(text, ensure_ascii=False)

    redacted = REDACTOR.redact_text(text)

    assert not any(value in redacted for value in VALUES), redacted
    assert redacted.count("[redacted table-column]") == len(VALUES)


def test_both_of_two_columns_for_secrets_are_redacted() -> None:
    text = "user,password,access_token\na,corner7Lantern,q8Zk3Lw0Vt7Xr2\n"

    redacted = REDACTOR.redact_text(text)

    assert redacted.count("[redacted table-column]") == 2, redacted


def test_two_columns_for_passwords_are_both_redacted() -> None:
    text = "password,user,db_password\ncorner7Lantern,a,m0onlit-barn\n"

    redacted = REDACTOR.redact_text(text)

    assert not any(value in redacted for value in VALUES), redacted


@pytest.mark.parametrize("fields", [{}, {"password": "x, y", "note": "a token, b"}])
def test_table_that_a_string_starts_with_is_redacted(fields: dict[str, str]) -> None:
    text = json.dumps(fields | {"content": TABLES["CSV"]})

    redacted = REDACTOR.redact_text(text)

    assert redacted.count("[redacted table-column]") == len(VALUES), redacted


def test_escape_in_a_cell_stays_whole() -> None:
    text = json.dumps({"text": "user,password\na,\t\ncorner7Lantern,\tsummer2Night\n"})

    redacted = json.loads(REDACTOR.redact_text(text))

    assert "summer2Night" not in redacted["text"]
    assert "corner7Lantern" in redacted["text"]


@pytest.mark.parametrize(
    "text",
    [
        "enter user, password, token\nthen base64-encode, sha256sum, md5sum-it\n",
        "| name | type |\n|---|---|\n| password | text |\n| oauth2-scope | text |\n",
        "user,password\nsee chapter4-b\n",
        '[\n  "CACHING_SHA2_PASSWORD",\n  "POSTGRES_MD5",\n  "SQL_SERVER1"\n]',
        "user,password\n\na,corner7Lantern\n",
        "| User | Password |\n|---|---|\n| a | that of anna-x2y |\n",
        "  password       the password\n  oauth2-scopes  the scopes\n",
        "Token     Kind\n--------  ----\nfoo_bar1  name\n",
    ],
)
def test_words_that_are_not_below_a_title_are_kept(text: str) -> None:
    assert REDACTOR.redact_text(text) == text


def _measure_time(text: str) -> float:
    titles = [match.span() for match in re.finditer("password", text)]
    started = process_time()
    list(find_column_values(text, titles))
    return process_time() - started


def test_time_for_titles_does_not_grow_with_their_number_in_a_line() -> None:
    pair = "password,a1b2c3d4x!,"
    narrow = _measure_time(f"{pair * 8}\n" * 1_000)
    wide = _measure_time(f"{pair * 160}\n" * 50)

    # Splitting the line again for each title takes 20 times as long.
    assert wide < 5 * narrow + 0.05


def test_time_for_rows_grows_little_with_the_number_of_titles() -> None:
    rows = f"{'corner-lantern,' * 200}x\n" * 200
    one = _measure_time(f"password,{'number,' * 199}x\n{rows}")
    many = _measure_time(f"{'password,' * 19}{'number,' * 181}x\n{rows}")

    # Splitting each row again for each title takes 10 times as long.
    assert many < 4 * one + 0.05


@pytest.mark.parametrize(
    "line",
    ["a,password\n", "A  PASSWORD\n", "password,", "a\\tpassword\\n", "token  \n"],
)
def test_time_for_repeated_titles_grows_with_their_number(line: str) -> None:
    times = []
    for count in (1_000, 4_000):
        started = process_time()
        REDACTOR.find(line * count)
        times.append(process_time() - started)

    # Quadratic time would be 16 times as long.
    assert times[1] < 9 * times[0] + 0.05
