"""Manners at the terminal."""

from __future__ import annotations

import io
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.cli.terminal import (
    Colour,
    Paint,
    ProgressBar,
    StageBar,
    columns,
    fit_left,
    fit_right,
    has_colour,
    plain,
    readable_size,
    short_path,
    table,
    width,
)


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a clock that stands still until its only number is changed."""
    now = [0.0]
    monkeypatch.setattr("bygones.cli.terminal.time.monotonic", lambda: now[0])
    return now


@given(st.text())
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    kept = plain(text)

    assert kept.isprintable()
    assert not any(unicodedata.category(sign)[0] == "C" for sign in kept)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\x9b2J", r"\x9b2J"),
        ("\ud800", r"\ud800"),
        ("grüße 日本 🎉", "grüße 日本 🎉"),
    ],
)
def test_what_steers_is_shown_instead(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("text", "taken"),
    [("abc", 3), ("日本語", 6), ("e\u0301", 1), ("한글!", 5), ("", 0)],
)
def test_wide_and_combining_characters_take_their_room(text: str, taken: int) -> None:
    assert width(text) == taken


@given(st.text().map(plain), st.integers(0, 20))
def test_fitted_text_fits(text: str, room: int) -> None:
    assert width(fit_right(text, room)) <= room
    assert width(fit_left(text, room)) <= room


def test_the_end_or_the_beginning_is_cut_off() -> None:
    assert fit_right("projects/demo", 9) == "projects…"
    assert fit_left("projects/demo", 9) == "…cts/demo"
    assert fit_left("日本語", 5) == "…本語"
    assert fit_right("as it is", 8) == fit_left("as it is", 8) == "as it is"


def test_columns_stand_below_each_other_also_in_wide_scripts() -> None:
    assert table([("日本", "1", "x"), ("abc", "1,000", "")], right="lrl") == [
        "日本      1  x",
        "abc   1,000",
    ]


def test_an_empty_table_has_no_lines() -> None:
    assert table([]) == []


def test_a_cell_cannot_break_the_table() -> None:
    assert table([("a\nb", "1")]) == [r"a\nb  1"]


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (1_234_567_890, "1.2 GB"),
        (10**15, "1000.0 TB"),
    ],
)
def test_sizes_are_in_the_unit_that_suits_them(size: int, shown: str) -> None:
    assert readable_size(size) == shown


@pytest.mark.parametrize(
    ("choice", "stream", "environ", "expected"),
    [
        (Colour.AUTO, Screen(), {}, True),
        (Colour.AUTO, io.StringIO(), {}, False),
        (Colour.AUTO, Screen(), {"NO_COLOR": "1"}, False),
        (Colour.AUTO, Screen(), {"NO_COLOR": ""}, True),
        (Colour.AUTO, Screen(), {"TERM": "dumb"}, False),
        (Colour.ALWAYS, io.StringIO(), {"NO_COLOR": "1"}, True),
        (Colour.NEVER, Screen(), {}, False),
    ],
)
def test_colour_is_for_terminals_and_for_those_who_ask(
    choice: Colour, stream: io.StringIO, environ: dict[str, str], *, expected: bool
) -> None:
    assert has_colour(choice, stream, environ) is expected


def test_paint_leaves_text_alone_without_colour() -> None:
    on, off = Paint(coloured=True), Paint(coloured=False)

    assert on.alert("3 odd") == "\x1b[33m3 odd\x1b[0m"
    assert on.faint("") == ""
    assert {off.heading("x"), off.faint("x"), off.alert("x"), off.place("x")} == {"x"}


def test_a_pipe_has_a_width_of_its_own() -> None:
    assert columns(io.StringIO(), {}) == 100
    assert columns(io.StringIO(), {"COLUMNS": "60"}) == 60


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_a_terminal_is_as_wide_as_it_is_or_as_it_is_said_to_be() -> None:
    import pty  # noqa: PLC0415 (Unix only)
    import termios  # noqa: PLC0415

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 72))
    with open(ours, "rb"), open(theirs, "w", encoding="utf-8") as stream:  # noqa: PTH123 (descriptors)
        assert columns(stream, {}) == 72
        assert columns(stream, {"COLUMNS": "60"}) == 60
        assert columns(stream, {"COLUMNS": "wide"}) == 72


def test_no_terminal_is_too_narrow() -> None:
    assert columns(Screen(), {"COLUMNS": "3"}) == 40


def test_a_terminal_that_cannot_be_measured_has_the_usual_width() -> None:
    assert columns(Screen(), {}) == 80


def test_a_path_is_shown_as_one_would_type_it() -> None:
    here, home = Path("/home/me/src"), Path("/home/me")

    assert short_path("/home/me/src/a.jsonl", here=here, home=home) == "a.jsonl"
    assert short_path("/home/me/.claude", here=here, home=home) == "~/.claude"
    assert short_path("/home/meadow", here=here, home=home) == "/home/meadow"
    assert short_path("/home/me/src", here=here, home=home) == "~/src"
    assert short_path("/x", here=Path("/"), home=home) == "x"


def test_the_bar_waits_a_second(clock: list[float]) -> None:
    screen = Screen()
    with ProgressBar(100, screen) as bar:
        bar.advance(10)
        assert screen.getvalue() == ""

        clock[0] = 1.0
        bar.advance(40)
        assert " 50%  50 B of 100 B" in screen.getvalue()

    assert screen.getvalue().endswith("\r\x1b[K")


def test_the_bar_is_drawn_a_few_times_a_second(clock: list[float]) -> None:
    screen = Screen()
    with ProgressBar(10_000, screen) as bar:
        for step in range(1000):
            clock[0] = 1 + step / 1000
            bar.advance(1)

    assert screen.getvalue().count("of 10.0 kB") <= 11


def test_there_is_no_bar_in_a_pipe(clock: list[float]) -> None:
    pipe = io.StringIO()
    with ProgressBar(100, pipe) as bar:
        clock[0] = 60.0
        bar.advance(50)

    assert pipe.getvalue() == ""


@pytest.mark.parametrize("total", [0, 40])
def test_a_bar_never_passes_its_end(total: int, clock: list[float]) -> None:
    screen = Screen()
    with ProgressBar(total, screen) as bar:
        clock[0] = 2.0
        bar.advance(80)

    assert "100%" in screen.getvalue()


def test_the_bar_says_how_fast_it_is_and_how_long_it_will_be(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "100")
    with ProgressBar(10_000_000, screen, what="reading") as bar:
        clock[0] = 2.0
        bar.advance(4_000_000)

    assert screen.getvalue().startswith("\rreading  █")
    assert " 40%  4.0 MB of 10.0 MB  2.0 MB/s  3.0s left" in screen.getvalue()


def test_a_narrow_terminal_gets_less_to_read(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "44")
    with ProgressBar(10_000_000, screen, what="reading") as bar:
        clock[0] = 2.0
        bar.advance(4_000_000)

    (line,) = screen.getvalue().replace("\x1b[K", "").split("\r")[1:2]
    assert width(line) < 44
    assert "left" not in line


def test_stages_share_one_line_and_one_second(clock: list[float]) -> None:
    screen = Screen()
    with StageBar(screen) as bar:
        bar.advance(1)
        clock[0] = 0.9
        bar.begin("reading", 100)
        bar.advance(50)
        assert screen.getvalue() == ""

        clock[0] = 1.1
        bar.advance(25)
        bar.begin("sessions", 2000)
        bar.advance(1000)

    shown = screen.getvalue()
    assert " 75%  75 B of 100 B" in shown
    assert " 50%  1,000 of 2,000" in shown
    assert shown.endswith("\r\x1b[K")
