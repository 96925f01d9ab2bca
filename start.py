"""Sets Bygones up in ``.venv`` and runs it, or its tests.

``python3 start.py`` takes this machine's Claude Code home into the archive and lists
its sessions (where there is no home, an invented one is made);
``python3 start.py WORDS`` runs ``bygones WORDS``;
``python3 start.py test`` runs every gate, with further words passed to pytest.

Needs Python 3.11 and nothing else; uv is used where it is installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import venv
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PROGRAMS = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = PROGRAMS / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / "installed"
PINS = ROOT / "requirements-dev.txt"
BROWSER_TESTS = ROOT / "tests" / "browser"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ENGINE = ("chdb==4.4.0", "chdb-core==26.9.0")
"""Not in the lock: where it cannot be had its tests are skipped, and say so."""
APT = "apt-get -qq update; apt-get install -y -qq --no-install-recommends chromium"
INSTALLED_FROM = (ROOT / "pyproject.toml", ROOT / "uv.lock", PINS)


class Gate(NamedTuple):
    """A check that must pass, and the words that run it."""

    name: str
    words: tuple[str, ...]


class Outcome(NamedTuple):
    """How a gate ended, and what it printed."""

    name: str
    failed: bool
    seconds: float
    output: str


GATES = (
    Gate("tests", (str(PYTHON), "-m", "pytest", "-q", "--tb=short", "-n", "2")),
    Gate("types", (str(PYTHON), "-m", "mypy")),
    Gate("format", (str(PYTHON), "-m", "ruff", "format", "--check")),
    Gate("lint", (str(PYTHON), "-m", "ruff", "check", "--output-format=concise")),
    Gate("imports", (str(PROGRAMS / "lint-imports"), "--no-cache")),
)


def main(words: list[str]) -> int:
    """Set up what is missing, go on with the words, and return the exit code."""
    # An older Python can read this file, and deserves to be told.
    if sys.version_info < (3, 11):  # noqa: UP036
        print("Bygones needs Python 3.11 or newer.", file=sys.stderr)
        return 1
    testing = words[:1] == ["test"]
    try:
        install(tools=testing)
    except subprocess.CalledProcessError as error:
        print(f"Setting up failed: {error}", file=sys.stderr)
        return 1
    if testing:
        install_browser()
        install_checker()
        install_engine()
        return run_gates(words[1:])
    if words:
        return bygones(words)
    if has_nowhere_to_look():
        print(
            "There is no Claude Code home here; this is an invented one:\n", flush=True
        )
        return bygones(["demo"])
    return bygones(["ingest"]) or bygones(["list", "-n", "10"])


def bygones(words: list[str]) -> int:
    """Run the command line and return its exit code."""
    return subprocess.run([PYTHON, "-m", "bygones", *words], check=False).returncode


def has_nowhere_to_look() -> bool:
    """Whether nobody said where the home is, and the usual places hold nothing."""
    if os.environ.get("CLAUDE_CONFIG_DIR"):
        return False
    usual = (Path.home() / ".claude", Path.home() / ".config" / "claude")
    return not any(next(home.glob("projects/*/*.jsonl"), None) for home in usual)


def install(*, tools: bool) -> None:
    """Bring ``.venv`` up to date, with the developers' tools if asked."""
    digest = hashlib.sha256(sys.version.encode())
    for path in INSTALLED_FROM:
        digest.update(path.read_bytes())
    wanted = f"{digest.hexdigest()} {'tools' if tools else 'program'}"
    found = STAMP.read_text("utf-8") if STAMP.exists() and PYTHON.exists() else ""
    if found in (wanted, f"{digest.hexdigest()} tools"):
        return
    print("Setting up .venv …", file=sys.stderr, flush=True)
    if not install_with_uv(tools=tools):
        install_with_pip(tools=tools)
    STAMP.write_text(wanted, "utf-8")


def install_with_uv(*, tools: bool) -> bool:
    """Install what ``uv.lock`` names, hashes checked; False if uv cannot."""
    uv = shutil.which("uv")
    if uv is None:
        return False
    groups = [] if tools else ["--no-dev"]
    words = [uv, "sync", "--quiet", "--locked", "--python", sys.executable, *groups]
    surroundings = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(VENV)}
    surroundings.pop("VIRTUAL_ENV", None)
    done = subprocess.run(words, cwd=ROOT, env=surroundings, check=False)
    if done.returncode:
        print("uv could not do it; going on with pip.", file=sys.stderr, flush=True)
    return done.returncode == 0


def install_with_pip(*, tools: bool) -> None:
    """Install the versions that ``requirements-dev.txt`` pins."""
    # Where Python comes without ensurepip, the pip beside it can still fill a venv.
    own_pip = importlib.util.find_spec("pip") is None
    venv.create(VENV, clear=True, with_pip=own_pip, symlinks=os.name != "nt")
    if own_pip:
        pip = [str(PYTHON), "-m", "pip"]
    else:
        pip = [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    pip += ["-qq", "--disable-pip-version-check", "install"]
    if tools:
        subprocess.run([*pip, "-r", str(PINS)], check=True)
    subprocess.run([*pip, "-c", str(PINS), "-e", str(ROOT)], check=True)


def install_browser() -> None:
    """Bring the browser that opens pages in tests, where that is possible at all.

    Where it is not, those tests are skipped and say so.
    """
    if any(map(shutil.which, BROWSERS)) or not shutil.which("apt-get"):
        return
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        return
    bring("browser", ["/bin/sh", "-c", APT])


def install_checker() -> None:
    """Bring axe-core, which holds pages against the rules of accessibility."""
    npm = shutil.which("npm")
    if npm is None or (BROWSER_TESTS / "node_modules" / "axe-core").exists():
        return
    bring("checker", [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"])


def install_engine() -> None:
    """Bring ClickHouse's engine, half a gigabyte: no server of it can be had here."""
    if sys.platform != "linux" or any(VENV.glob("lib/*/site-packages/chdb")):
        return
    uv = shutil.which("uv")
    pip = [uv, "pip"] if uv else [sys.executable, "-m", "pip"]
    into = ["install", "--python", str(PYTHON)] if uv else ["--python", str(PYTHON)]
    words = [*pip, *into, *([] if uv else ["install"]), "-q", "--no-deps", *ENGINE]
    bring("ClickHouse engine", words, "a company's store")


def bring(what: str, words: list[str], tested: str = "pages") -> None:
    """Install something for some tests, and say so if that fails."""
    told = f"Installing a {what}, for the tests of {tested} …"
    print(told, file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            words,
            check=False,
            timeout=300,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            cwd=BROWSER_TESTS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"There is no {what}: {error}", file=sys.stderr)
        return
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        print(f"There is no {what}: {told}", file=sys.stderr)


def run_gates(words: list[str]) -> int:
    """Run all gates side by side, show those that failed, and return 0 or 1.

    The last line is the one with which pytest ends.
    """
    outcomes = {}
    with ThreadPoolExecutor(len(GATES)) as pool:
        runs = [pool.submit(run_gate, gate, words) for gate in GATES]
        for run in as_completed(runs):
            outcome = run.result()
            outcomes[outcome.name] = outcome
            mark = "failed" if outcome.failed else "ok"
            print(f"{mark:7}{outcome.name:8}{outcome.seconds:6.1f} s", flush=True)
    for outcome in outcomes.values():
        if outcome.failed:
            print(f"\n{outcome.name}:\n{outcome.output}", flush=True)
    failed = any(outcome.failed for outcome in outcomes.values())
    closing = outcomes["tests"].output.rstrip().rpartition("\n")[2]
    print(f"{'Some gates failed' if failed else 'All gates passed'}; tests: {closing}")
    return int(failed)


def run_gate(gate: Gate, words: list[str]) -> Outcome:
    """Run one gate to its end; only the tests take the words."""
    start = time.monotonic()
    done = subprocess.run(
        [*gate.words, *(words if gate.name == "tests" else ())],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", "PYTHONUTF8": "1"},
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    seconds = time.monotonic() - start
    return Outcome(gate.name, done.returncode != 0, seconds, done.stdout)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
