"""Everything that pages need is loaded before the first request."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.web.archives import AGENT, EDITED, LONG, PLAIN, REWOUND, build_archive

PROGRAM = """
import gc
import sys
from pathlib import Path
from bygones.web.app import ROUTES, create_app
from bygones.web.live import EventBroadcaster
from bygones.web.server import warm_up
from bygones.web.pool import ArchivePool
from bygones.web.context import AppState
from starlette.testclient import TestClient

folder, home, *sessions = sys.argv[1:]
pool, broadcaster = ArchivePool(Path(folder)), EventBroadcaster()
state = AppState(pool=pool, broadcaster=broadcaster, homes=(Path(home),))
warm_up()
assert gc.get_freeze_count() > 10_000, gc.get_freeze_count()
before = set(sys.modules)
assert "pygments.lexers.python" in before
asked = 0
with TestClient(create_app(state)) as client:
    for route in ROUTES:
        for name in sessions if "{id}" in route.path else sessions[:1]:
            path = route.path.replace("{id}", name)
            path += "?q=line+tool:Bash&path=a.py&by=session"
            status = client.request(route.method, path, content="{}").status_code
            assert status != 500, path
            asked += status == 200
assert asked > 20, asked
print(*sorted(n for n in set(sys.modules) - before if n.startswith("bygones")))
"""


def test_pages_import_nothing_after_warm_up(tmp_path: Path) -> None:
    web_archive = build_archive(tmp_path)
    names = [PLAIN, LONG, REWOUND, AGENT, EDITED]
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM,
            web_archive.folder,
            web_archive.home.path,
            *names,
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []
