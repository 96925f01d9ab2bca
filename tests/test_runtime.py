"""Settings of the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIMIT = """
import resource
from bygones.runtime import allow_open_files
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
print(allow_open_files(1000), *resource.getrlimit(resource.RLIMIT_NOFILE), hard)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_servers_may_open_as_many_files_as_the_system_allows() -> None:
    result = subprocess.run(
        [sys.executable, "-c", LIMIT], capture_output=True, check=True
    )

    allowed, soft, hard, before = map(int, result.stdout.split())
    assert allowed == soft == (1000 if hard < 0 else min(hard, 1000))
    assert hard == before


REFUSE = """
import resource
from bygones import runtime
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
class Refusing:
    def __getattr__(self, name):
        return getattr(resource, name)
    def setrlimit(self, kind, limits):
        if limits[0] > 1_024:
            raise ValueError
        resource.setrlimit(kind, limits)
runtime.resource = Refusing()
print(runtime.allow_open_files(65_536), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_refused_limit_of_open_files_is_not_reported_as_set() -> None:
    result = subprocess.run(
        [sys.executable, "-c", REFUSE], capture_output=True, check=True
    )

    allowed, soft = map(int, result.stdout.split())
    assert allowed == soft == 1_024
