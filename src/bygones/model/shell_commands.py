"""What a shell command runs: its program and subcommand."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(r"""(?:[^\s"';&|]+|"[^"]*"|'[^']*')+|&&|\|\||[;|&\n]""")
_SEPARATORS = frozenset({"&&", "||", ";", "|", "&", "\n"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PROGRAM = re.compile(r"[A-Za-z0-9_][\w.+-]{0,39}")
_SUBCOMMAND = re.compile(r"[A-Za-z][\w:.-]{0,39}")
_SCRIPT = re.compile(r"[\w.-]{1,40}\.(?:py|js|mjs|cjs|ts|sh|rb|pl|php)")
_PREPARING = frozenset(
    [
        "cd",
        "export",
        "set",
        "unset",
        "source",
        ".",
        "pushd",
        "popd",
        "mkdir",
        "sleep",
        "true",
        "echo",
    ]
)
"""Programs before the one that matters, as in `cd app && npm test`."""
_WRAPPERS = frozenset(
    ["sudo", "time", "nice", "nohup", "env", "command", "exec", "timeout", "xargs"]
)
_RUNNERS = frozenset({("uv", "run"), ("poetry", "run"), ("pipenv", "run")})
_WITH_SUBCOMMANDS = frozenset(
    [
        "apt",
        "apt-get",
        "aws",
        "az",
        "brew",
        "bun",
        "bundle",
        "cargo",
        "composer",
        "conda",
        "deno",
        "docker",
        "docker-compose",
        "dotnet",
        "flutter",
        "gcloud",
        "gh",
        "git",
        "go",
        "gradle",
        "gradlew",
        "helm",
        "helmfile",
        "hg",
        "just",
        "kubectl",
        "make",
        "mix",
        "mvn",
        "npm",
        "npx",
        "nx",
        "pip",
        "pip3",
        "pipx",
        "pnpm",
        "podman",
        "poetry",
        "rails",
        "rake",
        "ruff",
        "rustup",
        "swift",
        "systemctl",
        "task",
        "terraform",
        "tofu",
        "turbo",
        "uv",
        "uvx",
        "vercel",
        "yarn",
    ]
)
_SCRIPT_RUNNERS = frozenset({"run", "run-script", "exec", "compose"})
"""Subcommands that a third word belongs to, as in `npm run build`."""
_INTERPRETER = re.compile(r"python[\d.]*|node|ts-node|tsx|bash|sh|zsh|ruby|perl|php")
_VALUE_OPTIONS = frozenset({"-C", "-c", "--prefix", "--git-dir", "--work-tree"})
"""Options whose value is the next word."""


def name_command(command: str) -> str:
    """Return the program that a shell command runs, with its subcommand.

    `cd app && CI=1 npm run build -- --fast` is `npm run build`. A command that isn't
    understood has an empty name::

        name_command(".venv/bin/python -m pytest -q")  # "pytest"
    """
    first = ""
    for words in _split(command):
        name = _name_words(words)
        if name.partition(" ")[0] not in _PREPARING:
            return name
        first = first or name
    return first


def _split(command: str) -> Iterator[list[str]]:
    """Yield the words of each simple command."""
    if "#" in command:
        lines = command.splitlines()
        command = "\n".join(one for one in lines if not one.lstrip().startswith("#"))
    words: list[str] = []
    for token in _TOKEN.finditer(command):
        word = token[0]
        if word not in _SEPARATORS:
            words.append(word)
        elif words:
            yield words
            words = []
    if words:
        yield words


def _name_words(words: list[str]) -> str:
    rest = _without_wrappers(words)
    if not rest:
        return ""
    program = _base_name(rest[0].lstrip("({!"))
    if not _PROGRAM.fullmatch(program):
        return ""
    arguments = rest[1:]
    if _INTERPRETER.fullmatch(program):
        return _name_script(program, arguments)
    if program not in _WITH_SUBCOMMANDS:
        return program
    found = _subcommands(arguments)
    if found and (program, found[0]) in _RUNNERS:
        return _name_words(arguments[arguments.index(found[0]) + 1 :]) or program
    count = 2 if found and found[0] in _SCRIPT_RUNNERS else 1
    return " ".join([program, *found[:count]])


def _without_wrappers(words: list[str]) -> list[str]:
    """Leave out variables, and programs that run another one."""
    at = 0
    is_wrapped = False
    while at < len(words):
        word = words[at]
        if word in _WRAPPERS:
            is_wrapped = True
        elif not _ASSIGNMENT.match(word) and not (
            is_wrapped and (word.startswith("-") or word[0].isdigit())
        ):
            break
        at += 1
    return words[at:]


def _name_script(program: str, arguments: list[str]) -> str:
    if "-m" in arguments[:4]:
        module = arguments[arguments.index("-m") + 1 :][:1]
        if module and _SUBCOMMAND.fullmatch(module[0]):
            return module[0]
    for word in arguments:
        if not word.startswith("-"):
            script = _base_name(word)
            return f"{program} {script}" if _SCRIPT.fullmatch(script) else program
    return program


def _subcommands(arguments: list[str]) -> list[str]:
    """Return up to two words that follow a program, without options."""
    found: list[str] = []
    skips_value = False
    for word in arguments:
        if skips_value or word.startswith("-"):
            skips_value = not skips_value and word in _VALUE_OPTIONS
            continue
        if not _SUBCOMMAND.fullmatch(word):
            break
        found.append(word)
        if len(found) == 2:  # noqa: PLR2004 (as in `npm run build`)
            break
    return found


def _base_name(word: str) -> str:
    return word.strip("\"'").replace("\\", "/").rpartition("/")[2]
