"""Every attack by itself in a session of its own: each list shows it, and runs nothing.

What is shown in brief is cut: of many attacks in one text only the first would stand
there. So it is also asked that each attack is in the text of the page.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from bygones.archive import Archive
from bygones.model.reports import Grouping
from bygones.render.html.markup import Html
from bygones.web.pages import files
from tests.browser.payloads import PAYLOADS
from tests.browser.server import RunningServer, open_tab, run_server
from tests.browser.tabs import BrowserTab
from tests.browser.test_hostile_site import assert_harmless
from tests.build import (
    Home,
    prompt,
    reply,
    session_id,
    thread,
    title,
    tool_result,
    tool_use,
)
from tests.faults.sizes import reached, sized
from tests.render.stories import PATCH

pytestmark = pytest.mark.full

ATTACKS = PAYLOADS[:: sized(20, 1, 1)]
_SHOWN = 12
"""Characters of an attack that no list cuts off."""
_PLAIN = re.compile(r"[ -~]{4,}")
"""Characters that are shown unchanged; others are shown by name."""
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
"""What is left out."""


def write_attacked_home(home: Path, attacks: tuple[str, ...]) -> None:
    """Write a session for each attack, in every text that lists show."""
    for number, bad in enumerate(attacks):
        mark = f"mark{number}x {' '.join(bad.split())}"
        edit = tool_use(
            "Edit", id=f"e{number}", file_path=f"/w{number}/{mark}", old_string="a"
        )
        outcome = {"filePath": f"/w{number}/{mark}", "structuredPatch": [PATCH]}
        records = thread(
            prompt(mark),
            reply([edit], model=mark, message_id=f"m{number}"),
            tool_result(f"e{number}", "done", outcome=outcome),
        )
        odd = {"cwd": f"/work/{mark}", "gitBranch": mark}
        records = [*(record | odd for record in records), title(mark)]
        Home(home).session(session_id(number), records, project=f"-work-{number}")


def pages_showing(number: int) -> dict[str, str]:
    """Return where one attack is shown among others, by what is shown there."""
    session = session_id(number)
    return {
        "hits": f"/search?q=mark{number}x",
        "titles": f"/?text=mark{number}x",
        "files of a session": f"/files?session={session}",
        "files": f"/files?path=/w{number}",
        "sessions": f"/session/{session}",
    }


def assert_shown(
    tab: BrowserTab, server: RunningServer, path: str, attack: str
) -> None:
    """Open a page, check that its text contains the attack, and that nothing ran."""
    assert assert_harmless(tab, server, path)
    text = " ".join(tab.page.evaluate("document.body.textContent").split())
    plain = _PLAIN.search(" ".join(_COLOR.sub("", attack).split()))
    assert plain, attack
    assert plain[0][:_SHOWN].rstrip() in text, path


@pytest.mark.parametrize("policy", [True, False], ids=["policy", "no policy"])
def test_each_attack_is_on_every_list_and_never_runs(
    policy: bool, browser: Browser, tmp_path: Path
) -> None:
    write_attacked_home(tmp_path / "home", ATTACKS)
    Archive.ingest(tmp_path / "archive", [tmp_path / "home"])
    page_count = 0
    with (
        run_server(tmp_path / "archive") as server,
        open_tab(browser, server, bypass_csp=not policy) as tab,
    ):
        for number, attack in enumerate(ATTACKS):
            for path in pages_showing(number).values():
                assert_shown(tab, server, path, attack)
                page_count += 1
        for path in ("/", "/projects", "/files", "/problems", *map(_usage, Grouping)):
            assert assert_harmless(tab, server, path)
    how = "with" if policy else "without"
    reached(f"web: lists and sessions with one attack each, {how} a CSP", page_count)


def _usage(grouping: Grouping) -> str:
    return f"/usage?by={grouping}"


def test_list_without_escaping_is_detected(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "escape_line", Html)
    write_attacked_home(tmp_path / "home", PAYLOADS[:1])
    Archive.ingest(tmp_path / "archive", [tmp_path / "home"])

    with (
        run_server(tmp_path / "archive") as server,
        open_tab(browser, server, bypass_csp=True) as tab,
        pytest.raises(AssertionError),
    ):
        assert_shown(tab, server, pages_showing(0)["files of a session"], PAYLOADS[0])
