"""Set Bygones up in ``.venv``, then run it or its tests.

    python3 start.py                import this machine's transcripts and list them
                                    (sample data where there are none)
    python3 start.py COMMAND …      run ``bygones COMMAND …``
    python3 start.py test           run all checks; more arguments go to pytest
    python3 start.py test --full    the same with browsers, all engines and fault runs

Needs Python 3.11 or newer and nothing else. Uses uv where it is installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
SCRIPTS = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = SCRIPTS / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / "installed"
PINS = ROOT / "requirements-dev.txt"
BROWSER_TESTS = ROOT / "tests" / "browser"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ENGINE = ("chdb==4.4.0", "chdb-core==26.9.0")
"""Not in the lock file: half a gigabyte, and its tests are skipped without it."""
APT = "apt-get -qq update; apt-get install -y -qq --no-install-recommends chromium"
ENVIRONMENT = {
    "NO_COLOR": "1",
    "PYTHONUTF8": "1",
    # Many tests start a command: without byte code each compiles its modules again.
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": str(VENV / "bytecode"),
}
"""What the checks get besides the variables that are set."""
MEMORY_NEEDED = 4 * 1024**3
"""The space in memory above which tests write their files there."""
INSTALLED_FROM = (ROOT / "pyproject.toml", ROOT / "uv.lock", PINS)


PROSE = (
    "src",
    "docs",
    "plugin",
    "benchmarks",
    "start.py",
    *map(str, ROOT.glob("*.md")),
)
"""Where the spelling is checked."""


class Check(NamedTuple):
    """A check and the command that runs it."""

    name: str
    command: tuple[str, ...]


class Outcome(NamedTuple):
    """How a check ended."""

    name: str
    failed: bool
    seconds: float
    output: str


XDIST = ("-n", "2", "--dist", "worksteal")
"""Each worker gets half of the files, so that fixtures of a file are made once."""
CHECKS = (
    Check("tests", (str(PYTHON), "-m", "pytest", "-q", "--tb=short", *XDIST)),
    Check("types", (str(PYTHON), "-m", "mypy")),
    Check("format", (str(PYTHON), "-m", "ruff", "format", "--check")),
    Check("lint", (str(PYTHON), "-m", "ruff", "check", "--output-format=concise")),
    Check("spelling", (str(PYTHON), "-m", "codespell_lib", *PROSE)),
    Check("imports", (str(SCRIPTS / "lint-imports"), "--no-cache")),
)


def main(arguments: list[str]) -> int:
    """Install what is missing, run what was asked for, return the exit code."""
    # An older Python can still parse this file and should get a clear message.
    if sys.version_info < (3, 11):  # noqa: UP036
        print("Bygones needs Python 3.11 or newer.", file=sys.stderr)
        return 1
    is_test = arguments[:1] == ["test"]
    try:
        install(tools=is_test)
    except subprocess.CalledProcessError as error:
        print(f"Setup failed: {error}", file=sys.stderr)
        return 1
    if is_test:
        if "--full" in arguments:
            install_browser()
            install_axe()
        install_engine()
        return run_checks(arguments[1:])
    if arguments:
        return run_bygones(arguments)
    if has_no_transcripts():
        print("No Claude Code transcripts found; using sample data.\n", flush=True)
        return run_bygones(["demo"])  # prints what to run next
    code = run_bygones(["ingest"]) or run_bygones(["list", "-n", "10"])
    if code == 0:
        program = os.path.relpath(SCRIPTS / "bygones")
        print(f"\nNext, run: {program} show last")
    return code


def run_bygones(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    command = [str(PYTHON), "-m", "bygones", *arguments]
    return subprocess.run(command, check=False).returncode


def has_no_transcripts() -> bool:
    """Whether the usual homes are empty and no other home is configured."""
    if os.environ.get("CLAUDE_CONFIG_DIR"):
        return False
    homes = (Path.home() / ".claude", Path.home() / ".config" / "claude")
    return not any(next(home.glob("projects/*/*.jsonl"), None) for home in homes)


def install(*, tools: bool) -> None:
    """Bring ``.venv`` up to date, with development tools if asked."""
    digest = hashlib.sha256(sys.version.encode())
    for path in INSTALLED_FROM:
        digest.update(path.read_bytes())
    wanted = f"{digest.hexdigest()} {'tools' if tools else 'program'}"
    found = STAMP.read_text("utf-8") if STAMP.exists() and PYTHON.exists() else ""
    if found in (wanted, f"{digest.hexdigest()} tools"):
        return
    if not install_with_uv(tools=tools):
        install_with_pip(tools=tools)
    STAMP.write_text(wanted, "utf-8")


def install_with_uv(*, tools: bool) -> bool:
    """Install what ``uv.lock`` pins, with hashes checked. False if uv is missing or fails."""
    uv = shutil.which("uv")
    if uv is None:
        return False
    groups = [] if tools else ["--no-dev"]
    command = [uv, "sync", "--quiet", "--locked", "--python", sys.executable, *groups]
    environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(VENV)}
    environment.pop("VIRTUAL_ENV", None)
    with step("Installing packages with uv"):
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if done.returncode:
        print("uv failed; using pip instead.", file=sys.stderr, flush=True)
    return done.returncode == 0


def install_with_pip(*, tools: bool) -> None:
    """Install the versions pinned in ``requirements-dev.txt``."""
    with step("Creating .venv"):
        # Where Python has no ensurepip, its own pip can still install into a venv.
        has_pip = importlib.util.find_spec("pip") is not None
        venv.create(VENV, clear=True, with_pip=not has_pip, symlinks=os.name != "nt")
    if has_pip:
        pip = [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    else:
        pip = [str(PYTHON), "-m", "pip"]
    pip += ["-qq", "--disable-pip-version-check", "install"]
    if tools:
        with step("Installing development tools (about a minute)"):
            subprocess.run([*pip, "-r", str(PINS)], check=True)
    with step("Installing Bygones"):
        subprocess.run([*pip, "-c", str(PINS), "-e", str(ROOT)], check=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Report a step of the set-up and how long it took."""
    print(f"{name} …", end="", file=sys.stderr, flush=True)
    start = time.monotonic()
    try:
        yield
    except BaseException:
        print(file=sys.stderr)
        raise
    print(f" {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def install_browser() -> None:
    """Install Chromium for browser tests, where apt and root rights are available."""
    if any(map(shutil.which, BROWSERS)) or not shutil.which("apt-get"):
        return
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        return
    try_install("a browser", ["/bin/sh", "-c", APT])


def install_axe() -> None:
    """Install axe-core, which checks pages for accessibility."""
    npm = shutil.which("npm")
    if npm is None or (BROWSER_TESTS / "node_modules" / "axe-core").exists():
        return
    try_install("axe-core", [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"])


def install_engine() -> None:
    """Install chDB, the engine of ClickHouse, for the tests of that store."""
    if sys.platform != "linux" or any(VENV.glob("lib/*/site-packages/chdb")):
        return
    uv = shutil.which("uv")
    if uv:
        command = [uv, "pip", "install", "--python", str(PYTHON)]
    else:
        command = [sys.executable, "-m", "pip", "--python", str(PYTHON), "install"]
    try_install("chDB", [*command, "-q", "--no-deps", *ENGINE])


def try_install(name: str, command: list[str]) -> None:
    """Install something that some tests need; report if that fails."""
    try:
        with step(f"Installing {name} for tests"):
            done = subprocess.run(
                command,
                check=False,
                timeout=300,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                cwd=BROWSER_TESTS,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"Cannot install {name}: {error}", file=sys.stderr)
        return
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        print(f"Cannot install {name}: {reason}", file=sys.stderr)


def run_checks(arguments: list[str]) -> int:
    """Run all checks in parallel, print failures, and return 0 or 1.

    The last line repeats the last line of pytest.
    """
    outcomes = {}
    with temporary_folder() as folder, ThreadPoolExecutor(len(CHECKS)) as pool:
        runs = [pool.submit(run_check, check, arguments, folder) for check in CHECKS]
        for run in as_completed(runs):
            outcome = run.result()
            outcomes[outcome.name] = outcome
            state = "failed" if outcome.failed else "ok"
            print(f"{state:7}{outcome.name:8}{outcome.seconds:6.1f} s", flush=True)
    for outcome in outcomes.values():
        if outcome.failed:
            print(f"\n{outcome.name}:\n{outcome.output}", flush=True)
    failed = any(outcome.failed for outcome in outcomes.values())
    last_line = outcomes["tests"].output.rstrip().rpartition("\n")[2]
    result = "Some checks failed" if failed else "All checks passed"
    print(f"{result}; tests: {last_line}")
    return int(failed)


def run_check(check: Check, arguments: list[str], folder: dict[str, str]) -> Outcome:
    """Run one check; only the tests get the arguments."""
    start = time.monotonic()
    done = subprocess.run(
        [*check.command, *(arguments if check.name == "tests" else ())],
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENT, **folder},
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    seconds = time.monotonic() - start
    return Outcome(check.name, done.returncode != 0, seconds, done.stdout)


@contextmanager
def temporary_folder() -> Iterator[dict[str, str]]:
    """Yield the variable that makes tests write to memory, where there is room.

    Archives sync each of their files, which takes most of the time on a disk.
    """
    memory = Path("/dev/shm")  # noqa: S108 (the folder there is private)
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK):
        yield {}
        return
    may_run = not os.statvfs(memory).f_flag & os.ST_NOEXEC
    has_room = shutil.disk_usage(memory).free >= MEMORY_NEEDED
    if not may_run or not has_room:
        yield {}
        return
    with tempfile.TemporaryDirectory(
        prefix="bygones-", dir=memory, ignore_cleanup_errors=True
    ) as folder:
        yield {"TMPDIR": folder}


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
