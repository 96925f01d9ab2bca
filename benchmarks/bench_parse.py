"""Compare parsing with decoding by ``json`` and ``orjson``.

``python -m benchmarks.bench_parse HOME`` runs five variants, each in its own process, over
the same files: reading alone, which all of them do, ``json.loads`` per line,
``orjson.loads`` per line, the light pass, and ``bygones inspect``. Then it measures
decoding alone, with lines in memory, and the variants over a generated file of 1 GB and a
generated line of 200 MB.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from benchmarks.run import Arm, measure, ratios, title
from bygones.inspection import total_transcript_size
from bygones.model.base import Line, SourceFile
from bygones.parse.light import parse_line_light
from bygones.sources.lines import read_lines
from bygones.sources.walk import discover_sources

USAGE = """\
usage: python -m benchmarks.bench_parse HOME

HOME is a folder of transcripts; a gigabyte is a good size. To make one where the
generator is at hand: python ../shared/bench/gen.py HOME --mb 1000 --seed 1 --procs 2"""

BIG_FILE = 1_000_000_000
LONG_LINE = 200_000_000
HELD = 32_000_000
"""Bytes of lines that are held while decoding alone is measured."""


def lines(path: Path) -> Iterator[Line]:
    """Yield all lines of all transcripts."""
    for source in discover_sources(path):
        if isinstance(source, SourceFile) and source.kind.is_transcript:
            for line in read_lines(source):
                if isinstance(line, Line):
                    yield line


def decode(path: Path, loads: Callable[[bytes], object]) -> None:
    """Decode every line, passing over those that are not JSON."""
    for line in lines(path):
        try:
            loads(line.raw)
        except ValueError:
            continue


def with_nothing(path: Path) -> None:
    """Only read, which all variants do before they decode."""
    for _ in lines(path):
        pass


def with_json(path: Path) -> None:
    """Decode as the standard library does."""
    decode(path, json.loads)


def with_orjson(path: Path) -> None:
    """Decode with the fastest decoder that builds everything."""
    decode(path, orjson.loads)


def with_light_pass(path: Path) -> None:
    """Run the light pass on every line, as ingest does."""
    for line in lines(path):
        parse_line_light(line)


ARMS = {
    "read": with_nothing,
    "json": with_json,
    "orjson": with_orjson,
    "light": with_light_pass,
}


def loads_json(line: Line) -> object:
    """Decode one line as the standard library does."""
    return json.loads(line.raw)


def loads_orjson(line: Line) -> object:
    """Decode one line with the fastest decoder that builds everything."""
    return orjson.loads(line.raw)


DECODERS: dict[str, Callable[[Line], object]] = {
    "json": loads_json,
    "orjson": loads_orjson,
    "light": parse_line_light,
}


def time_decoding(path: Path, decode_line: Callable[[Line], object]) -> float:
    """Return the CPU seconds that decoding takes, reading and splitting left out."""
    spent = 0.0
    held: list[Line] = []
    weight = 0
    for line in lines(path):
        held.append(line)
        weight += line.position.length
        if weight > HELD:
            spent += _decode_held(held, decode_line)
            held, weight = [], 0
    return spent + _decode_held(held, decode_line)


def _decode_held(held: list[Line], decode_line: Callable[[Line], object]) -> float:
    started = time.process_time()
    for line in held:
        try:  # noqa: SIM105 (a context costs as much as a short line)
            decode_line(line)
        except ValueError:
            pass
    return time.process_time() - started


def compare_decoding(path: Path, *, times: int) -> None:
    """Decode lines that are in memory already, in turns, and print the best."""
    best = dict.fromkeys(DECODERS, float("inf"))
    for _ in range(times):
        for name in DECODERS:
            words = [sys.executable, "-m", "benchmarks.bench_parse", "--decode", name]
            told = subprocess.check_output([*words, str(path)], text=True)
            best[name] = min(best[name], float(told))
    size = total_transcript_size([path]) / 1e6
    print(f"{'':8} {'CPU s':>8} {'MB/CPU s':>9} {'x json':>7} {'x orjson':>9}")
    for name, spent in best.items():
        against = best["json"] / spent, best["orjson"] / spent
        speed = f"{spent:8.2f} {size / spent:9.0f}"
        print(f"{name:8} {speed} {against[0]:7.2f} {against[1]:9.2f}", flush=True)


def arms(path: Path) -> list[Arm]:
    """Return the arms as programs that run over ``path``."""
    here = [sys.executable, "-m", "benchmarks.bench_parse"]
    found = [Arm(name, [*here, "--arm", name, str(path)]) for name in ARMS]
    words = [sys.executable, "-m", "bygones", "inspect", "--json", str(path)]
    return [*found, Arm("inspect", words)]


def compare(path: Path, *, times: int) -> None:
    """Run the arms over ``path`` and print their table."""
    for row in ratios(
        measure(arms(path), times=times),
        size=total_transcript_size([path]),
        against=("json", "orjson"),
    ):
        print(row, flush=True)


def write_big_file(home: Path, path: Path) -> None:
    """Write the home's lines, again and again, into one file."""
    with path.open("wb") as file:
        while file.tell() < BIG_FILE:
            for line in lines(home):
                file.write(line.raw + b"\n")
                if file.tell() >= BIG_FILE:
                    break


def write_long_line(path: Path) -> None:
    """Write one record with a long result, and the result again as its outcome."""
    words = "The quick brown fox \\u00e4nd the dog.\\n" * (LONG_LINE // 2 // 38)
    with path.open("w", encoding="utf-8") as file:
        file.write('{"type":"user","message":{"role":"user","content":[')
        file.write('{"type":"tool_result","tool_use_id":"toolu_1","content":"')
        file.write(f'{words}"}}]}},"uuid":"u","toolUseResult":{{"stdout":"')
        file.write(f'{words}"}}}}\n')


def main(arguments: list[str]) -> int:
    """Compare the arms over a home, or run one arm."""
    if arguments[:1] == ["--arm"]:
        ARMS[arguments[1]](Path(arguments[2]))
        return 0
    if arguments[:1] == ["--decode"]:
        print(time_decoding(Path(arguments[2]), DECODERS[arguments[1]]))
        return 0
    if len(arguments) != 1 or not Path(arguments[0]).exists():
        print(USAGE, file=sys.stderr)
        return 2
    home = Path(arguments[0])
    print(f"# Parsing · Python {platform.python_version()}, {platform.machine()}")
    files = sum(isinstance(found, SourceFile) for found in discover_sources(home))
    print(
        title(
            f"A home of {files:,} files, {total_transcript_size([home]) / 1e6:,.0f} MB"
        )
    )
    compare(home, times=3)
    print(title("Decoding alone, with lines in memory"))
    compare_decoding(home, times=3)
    with tempfile.TemporaryDirectory() as folder:
        big, long = Path(folder, "big.jsonl"), Path(folder, "long.jsonl")
        write_big_file(home, big)
        print(title(f"One file of {big.stat().st_size / 1e6:,.0f} MB"))
        compare(big, times=3)
        big.unlink()
        write_long_line(long)
        print(title(f"One line of {long.stat().st_size / 1e6:,.0f} MB"))
        compare(long, times=3)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
