"""`bygones sync HOST`, with a stand-in for ssh and with a real server."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, prompt, reply, session_id, thread

HERE, THERE = session_id(1), session_id(2)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@pytest.fixture
def remote_command(tmp_path: Path) -> str:
    """Return how the other machine starts Bygones, with its own home and archive."""
    home = Home(tmp_path / "there" / ".claude")
    home.session(THERE, thread(prompt("over there"), reply("yes")))
    program = tmp_path / "there" / "bygones"
    python = shlex.quote(sys.executable)
    program.write_text(
        f"#!/bin/sh\nexport HOME={shlex.quote(str(home.path.parent))}\n"
        f"export BYGONES_ARCHIVE=$HOME/archive\nunset CLAUDE_CONFIG_DIR\n"
        f'exec {python} -m bygones "$@"\n'
    )
    program.chmod(0o700)
    return shlex.quote(str(program))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = Home(tmp_path / "here" / ".claude")
    home.session(HERE, thread(prompt("over here"), reply("yes")))
    monkeypatch.setenv("HOME", str(home.path.parent))
    monkeypatch.setenv("BYGONES_ARCHIVE", str(tmp_path / "here" / "archive"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return tmp_path


@pytest.fixture
def fake_ssh(tmp_path: Path) -> str:
    """Return a program that runs a command as ssh does, after some text of a shell."""
    program = tmp_path / "ssh"
    program.write_text(
        '#!/bin/sh\n[ "$1" = -- ] || exit 9\n[ "$2" = laptop ] || exit 255\n'
        'echo "Last login: today"\nexec sh -c "$3"\n'
    )
    program.chmod(0o700)
    return str(program)


def sessions(folder: Path) -> set[str]:
    with Archive.open(folder) as archive:
        return {session.id for session in archive.sessions()}


def test_host_and_this_machine_have_all_sessions_afterwards(
    here: Path,
    remote_command: str,
    fake_ssh: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--ssh", fake_ssh, "--remote-command", remote_command]
    assert main(["sync", "laptop", "--dry-run", *options]) == ExitCode.SUCCESS
    stdout = capsys.readouterr().out
    assert "would receive 1 session (1 file" in stdout
    assert "would send 1 session (1 file" in stdout

    assert main(["sync", "laptop", "--json", *options]) == ExitCode.SUCCESS

    row = json.loads(capsys.readouterr().out)
    assert row["received"]["session_ids"] == [THERE]
    assert "type" not in row["received"]
    assert row["sent"]["session_ids"] == [HERE]
    assert sessions(here / "here" / "archive") == {HERE, THERE}
    assert sessions(here / "there" / "archive") == {HERE, THERE}
    assert main(["sync", "laptop", *options]) == ExitCode.SUCCESS
    assert capsys.readouterr().out == "received nothing\nsent nothing\n"


@pytest.mark.parametrize(
    ("host", "command", "message"),
    [
        ("laptop", "no-such-program", "name its path with --remote-command"),
        ("laptop", "echo", "Bygones did not respond"),
        ("nowhere", "bygones", "Bygones did not respond"),
        ("-oProxyCommand=touch x", "bygones", "not the name of a host"),
    ],
)
def test_host_that_does_not_answer_is_explained(  # noqa: PLR0913, PLR0917 (fixtures)
    host: str,
    command: str,
    message: str,
    here: Path,
    fake_ssh: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--ssh", fake_ssh, "--remote-command", command]

    assert main(["sync", *options, "--", host]) == ExitCode.FAILURE

    assert message in capsys.readouterr().err
    assert sessions(here / "here" / "archive") == {HERE}


def test_mistyped_folder_is_not_created(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = here / "Dropbx" / "bygones"

    assert main(["sync", str(shared)]) == ExitCode.USAGE_ERROR
    assert "use --create" in capsys.readouterr().err
    assert main(["sync", str(shared), "--dry-run"]) == ExitCode.SUCCESS
    assert "would be created" in capsys.readouterr().err
    assert not shared.parent.exists()

    assert main(["sync", str(shared), "--create"]) == ExitCode.SUCCESS
    assert main(["sync", str(shared)]) == ExitCode.SUCCESS
    assert shared.is_dir()


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[str]:
    """Start a server of OpenSSH on this machine; return the command that connects."""
    server = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(server).exists() or shutil.which("ssh") is None:
        pytest.skip("needs openssh-server")
    folder = tmp_path / "ssh-server"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        command = [
            "ssh-keygen",
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-f",
            str(folder / name),
        ]
        subprocess.run(command, check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    Path("/run/sshd").mkdir(parents=True, exist_ok=True)
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "authorized",
        "StrictModes": "no",
        "PidFile": "none",
        "UsePAM": "no",
    }
    options = [f"-o{name}={value}" for name, value in settings.items()]
    process = subprocess.Popen([server, "-D", "-e", "-f", "/dev/null", *options])
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield (
            f"ssh -p {port} -i {folder / 'user'} -o BatchMode=yes -F none"
            f" -o StrictHostKeyChecking=no -o UserKnownHostsFile={folder / 'known'}"
        )
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.full
def test_real_ssh_carries_the_sync(
    here: Path, remote_command: str, ssh: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Long enough to need many messages in both directions.
    home = Home(here / "here" / ".claude")
    for number in range(10, 40):
        home.session(
            session_id(number),
            thread(prompt("x" * 20_000), reply(os.urandom(9000).hex())),
        )
    target = f"{getuser()}@127.0.0.1"

    options = ["--ssh", ssh, "--remote-command", remote_command]
    assert main(["sync", target, *options]) == ExitCode.SUCCESS

    assert "received 1 session" in capsys.readouterr().out
    found = sessions(here / "there" / "archive")
    assert found == sessions(here / "here" / "archive")
    assert len(found) == 32
    assert Archive.verify(here / "there" / "archive").is_intact


CUT_CONNECTION = """
import os, subprocess, sys, threading

direction, limit, *command = sys.argv[1:]
rest = int(limit)
ssh = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def copy(source, target, is_limited):
    global rest
    while raw := os.read(source.fileno(), 4096):
        rest -= len(raw) if is_limited else 0
        if rest < 0:
            ssh.kill()
            return
        os.write(target.fileno(), raw)
    target.close()


threading.Thread(
    target=copy, args=(sys.stdin, ssh.stdin, direction == "to"), daemon=True
).start()
copy(ssh.stdout, sys.stdout, direction == "from")
os._exit(ssh.wait() and 255)
"""


@pytest.mark.full
def test_connection_that_breaks_anywhere_loses_nothing(
    here: Path, remote_command: str, ssh: str
) -> None:
    chance = random.Random(7)  # noqa: S311 (not a secret)
    folders = [here / name / "archive" for name in ("here", "there")]
    homes = [Home(folder.with_name(".claude")) for folder in folders]
    program = here / "cut.py"
    program.write_text(CUT_CONNECTION)
    target = f"{getuser()}@127.0.0.1"
    known: dict[Path, set[str]] = {folder: set() for folder in folders}
    broken = 0

    def sync(cut: str) -> int:
        options = ["--ssh", f"{cut}{ssh}", "--remote-command", remote_command]
        return main(["sync", target, *options])

    for step in range(10):
        for number in range(10 + 12 * step, 22 + 12 * step):
            answer = chance.randbytes(9000).hex()
            records = thread(prompt("x" * 20_000), reply(answer))
            homes[number % 2].session(session_id(number), records)
        limit = chance.randrange(60_000)
        code = sync(f"{sys.executable} {program} {('to', 'from')[step % 2]} {limit} ")
        broken += code == ExitCode.FAILURE
        for folder in folders:
            if Archive.exists(folder):
                assert Archive.verify(folder).is_intact
                assert known[folder] <= sessions(folder)
                known[folder] = sessions(folder)

    assert broken >= 4
    assert sync("") == ExitCode.SUCCESS
    for folder in folders:
        assert Archive.verify(folder, deep=True).is_intact
        assert len(sessions(folder)) == 122
    assert sessions(folders[0]) == sessions(folders[1])


@pytest.mark.full
def test_killed_processes_of_a_sync_lose_nothing(here: Path) -> None:
    home = Home(here / "here" / ".claude")
    for number in range(10, 40):
        home.session(
            session_id(number),
            thread(prompt("x" * 20_000), reply(os.urandom(9000).hex())),
        )
    archive, shared = here / "here" / "archive", here / "shared"
    Archive.ingest(archive, [home.path])
    other = here / "other"
    environ = {**os.environ, "BYGONES_ARCHIVE": str(other), "HOME": str(here / "none")}
    command = [sys.executable, "-m", "bygones", "sync", str(shared), "--create"]
    subprocess.run([*command, "--archive", str(archive)], check=True)

    for step in range(12):
        process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
        time.sleep(0.3 + 0.15 * step)
        process.kill()
        process.wait()
        if Archive.exists(other):
            assert Archive.verify(other).is_intact

    subprocess.run(command, env=environ, check=True)
    assert sessions(other) == sessions(archive)
    assert Archive.verify(other, deep=True).is_intact
