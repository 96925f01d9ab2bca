"""Run the parsing benchmark over one home: ``python -m benchmarks HOME``."""

from __future__ import annotations

import sys

from benchmarks import bench_parse

sys.exit(bench_parse.main(sys.argv[1:]))
