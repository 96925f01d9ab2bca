"""Sessions by the tools that they called."""

from __future__ import annotations

from pathlib import Path

from bygones.archive import Archive
from tests.web.archives import AGENT, EDITED, PLAIN, build_archive


def test_sessions_are_listed_by_tool(tmp_path: Path) -> None:
    with Archive.open(build_archive(tmp_path).folder) as archive:
        found = archive.sessions_by_tool()

    assert PLAIN in found["Bash"]
    assert EDITED not in found["Bash"]
    assert found["Edit"] == {EDITED}
    assert AGENT in frozenset().union(*found.values())
