"""Memory of long-running programs."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys
from threading import Barrier, Thread
from bygones.runtime import limit_malloc_arenas
if sys.argv[1] == "shared":
    limit_malloc_arenas()
told, kept = Barrier(9), []
def work():
    kept.append([bytes(50_000) for _ in range(10)])
    told.wait()
    told.wait()
threads = [Thread(target=work) for _ in range(8)]
for one in threads:
    one.start()
told.wait()
library = ctypes.CDLL(None)
library.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(library.fdopen(1, b"w"))
library.malloc_info(0, out)
library.fflush(out)
told.wait()
"""


def heaps(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True
    )
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="heaps are those of glibc"
)
def test_threads_share_a_few_malloc_arenas() -> None:
    if (alone := heaps("alone")) < 2:
        pytest.skip("this library has one heap for all")

    assert heaps("shared") <= 2 < alone
