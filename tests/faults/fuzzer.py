"""Coverage-guided fuzzing with atheris.

``python -m tests.faults.fuzzer NAME SECONDS FOLDER`` starts with typical inputs
of a target, and writes inputs that break it to the folder. It needs atheris, which is not
installed everywhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["bygones"]):
    from tests.faults.fuzzing import TARGETS, seed_inputs


def main(name: str, seconds: int, folder: Path) -> None:
    """Fuzz a target; atheris ends the process."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, raw in enumerate(seed_inputs(name)):
        (corpus / str(number)).write_bytes(raw)
    options = [f"-max_total_time={seconds}", "-max_len=2048", "-print_final_stats=1"]
    options += [f"-artifact_prefix={folder}/", "-timeout=10", "-rss_limit_mb=512"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
