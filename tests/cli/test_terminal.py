"""Manners at the terminal."""

from __future__ import annotations

import io
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.cli.output import (
    ColorMode,
    ProgressBar,
    StagedProgressBar,
    Style,
    format_size,
    is_color_enabled,
    output_width,
    shorten_path,
)
from bygones.render.text.primitives import display_width, truncate_end, truncate_start
from bygones.render.text.primitives import sanitize_name as plain


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a clock that stands still until its only number is changed."""
    now = [0.0]
    monkeypatch.setattr("bygones.cli.output.time.monotonic", lambda: now[0])
    return now


@given(st.text())
def test_sanitized_text_has_no_control_characters(text: str) -> None:
    cleaned = plain(text)

    assert cleaned.isprintable()
    assert not any(unicodedata.category(sign)[0] == "C" for sign in cleaned)


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
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("text", "taken"),
    [("abc", 3), ("日本語", 6), ("e\u0301", 1), ("한글!", 5), ("", 0)],
)
def test_width_of_wide_and_combining_characters(text: str, taken: int) -> None:
    assert display_width(text) == taken


@given(st.text().map(plain), st.integers(0, 20))
def test_fitted_text_fits(text: str, room: int) -> None:
    assert display_width(truncate_end(text, room)) <= room
    assert display_width(truncate_start(text, room)) <= room


def test_text_is_truncated_at_either_end() -> None:
    assert truncate_end("projects/demo", 9) == "projects…"
    assert truncate_start("projects/demo", 9) == "…cts/demo"
    assert truncate_start("日本語", 5) == "…本語"
    assert truncate_end("as it is", 8) == truncate_start("as it is", 8) == "as it is"


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
def test_sizes_have_suitable_units(size: int, shown: str) -> None:
    assert format_size(size) == shown


@pytest.mark.parametrize(
    ("choice", "stream", "environ", "expected"),
    [
        (ColorMode.AUTO, Screen(), {}, True),
        (ColorMode.AUTO, io.StringIO(), {}, False),
        (ColorMode.AUTO, Screen(), {"NO_COLOR": "1"}, False),
        (ColorMode.AUTO, Screen(), {"NO_COLOR": ""}, True),
        (ColorMode.AUTO, Screen(), {"TERM": "dumb"}, False),
        (ColorMode.ALWAYS, io.StringIO(), {"NO_COLOR": "1"}, True),
        (ColorMode.NEVER, Screen(), {}, False),
    ],
)
def test_color_is_used_on_terminals_or_if_forced(
    choice: ColorMode, stream: io.StringIO, environ: dict[str, str], *, expected: bool
) -> None:
    assert is_color_enabled(choice, stream, environ) is expected


def test_paint_leaves_text_alone_without_color() -> None:
    on, off = Style(is_colored=True), Style(is_colored=False)

    assert on.warning("3 odd") == "\x1b[33m3 odd\x1b[0m"
    assert on.dim("") == ""
    assert {off.heading("x"), off.dim("x"), off.warning("x"), off.location("x")} == {
        "x"
    }


def test_pipe_has_a_fixed_width() -> None:
    assert output_width(io.StringIO(), {}) == 100
    assert output_width(io.StringIO(), {"COLUMNS": "60"}) == 60


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
def test_width_comes_from_the_terminal_or_columns() -> None:
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 72))
    with open(ours, "rb"), open(theirs, "w", encoding="utf-8") as stream:  # noqa: PTH123 (descriptors)
        assert output_width(stream, {}) == 72
        assert output_width(stream, {"COLUMNS": "60"}) == 60
        assert output_width(stream, {"COLUMNS": "wide"}) == 72


def test_width_has_a_minimum() -> None:
    assert output_width(Screen(), {"COLUMNS": "3"}) == 40


def test_a_terminal_that_cannot_be_measured_has_the_usual_width() -> None:
    assert output_width(Screen(), {}) == 80


def test_home_directory_is_shown_as_a_tilde() -> None:
    here, home = Path("/home/me/src"), Path("/home/me")

    assert shorten_path("/home/me/src/a.jsonl", cwd=here, home=home) == "a.jsonl"
    assert shorten_path("/home/me/.claude", cwd=here, home=home) == "~/.claude"
    assert shorten_path("/home/meadow", cwd=here, home=home) == "/home/meadow"
    assert shorten_path("/home/me/src", cwd=here, home=home) == "~/src"
    assert shorten_path("/x", cwd=Path("/"), home=home) == "x"


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


def test_bar_shows_rate_and_remaining_time(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "100")
    with ProgressBar(10_000_000, screen, label="reading") as bar:
        clock[0] = 2.0
        bar.advance(4_000_000)

    assert screen.getvalue().startswith("\rreading  █")
    assert " 40%  4.0 MB of 10.0 MB  2.0 MB/s  3.0s left" in screen.getvalue()


def test_bar_is_shorter_on_a_narrow_terminal(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "44")
    with ProgressBar(10_000_000, screen, label="reading") as bar:
        clock[0] = 2.0
        bar.advance(4_000_000)

    (line,) = screen.getvalue().replace("\x1b[K", "").split("\r")[1:2]
    assert display_width(line) < 44
    assert "left" not in line


def test_stages_share_one_line_and_one_second(clock: list[float]) -> None:
    screen = Screen()
    with StagedProgressBar(screen) as bar:
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
