"""Has atheris look for bytes that break something, led by what they reach.

``python -m tests.faults.fuzzer NAME SECONDS FOLDER`` begins with what a target is
usually given, and leaves in the folder what breaks it. It needs atheris, which is not
installed everywhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["bygones"]):
    from tests.faults.fuzzing import TARGETS, beginnings


def main(name: str, seconds: int, folder: Path) -> None:
    """Look for bytes that break a target; the engine ends the program."""
    begin = folder / "begin"
    begin.mkdir(parents=True, exist_ok=True)
    for number, raw in enumerate(beginnings(name)):
        (begin / str(number)).write_bytes(raw)
    words = [f"-max_total_time={seconds}", "-max_len=2048", "-print_final_stats=1"]
    words += [f"-artifact_prefix={folder}/", "-timeout=10", "-rss_limit_mb=512"]
    atheris.Setup([sys.argv[0], *words, str(begin)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
