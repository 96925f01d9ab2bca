"""Measures what Claude Code charges, and compares it with our table.

    python -m tests.client.prices [--version VERSION] [MODEL...]

The client is asked once for each kind of token: the stub answers with only that kind, so
the cost that the client reports is the price of that kind. Without names, all models of
the table and all that the program mentions are measured.
"""

from __future__ import annotations

import argparse
import json
import mmap
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import bygones.usage.prices
from bygones.usage.prices import (
    PICOS_PER_DOLLAR,
    Prices,
    load_prices,
    normalize_model_name,
)
from tests.client.driver import ClaudeCode
from tests.client.install import PINNED_VERSION, find_newest_version, install_client
from tests.client.isolation import enable_loopback, run_isolated
from tests.client.messages_api import Json, MessagesApi, say

_TOKENS = 10_000
_LONG_TOKENS = 300_000
_MODEL_NAME = re.compile(
    rb"""["'`](claude-(?:(?:3|3-5|3-7)-[a-z]+|[a-z]+-(?:\d(?:-\d)?|preview)))["'`]"""
)
_NO_TOKENS: Json = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_creation": {
        "ephemeral_5m_input_tokens": 0,
        "ephemeral_1h_input_tokens": 0,
    },
}


def _cache_write(five_minutes: int, hour: int) -> Json:
    return {
        "cache_creation_input_tokens": five_minutes + hour,
        "cache_creation": {
            "ephemeral_5m_input_tokens": five_minutes,
            "ephemeral_1h_input_tokens": hour,
        },
    }


KINDS: Mapping[str, Json] = {
    "input": {"input_tokens": _TOKENS},
    "output": {"output_tokens": _TOKENS},
    "write_5m": _cache_write(_TOKENS, 0),
    "write_1h": _cache_write(0, _TOKENS),
    "read": {"cache_read_input_tokens": _TOKENS},
    "fast": {"input_tokens": _TOKENS, "speed": "fast"},
    "us": {"input_tokens": _TOKENS, "inference_geo": "us"},
    "eu": {"input_tokens": _TOKENS, "inference_geo": "eu"},
    "search": {"server_tool_use": {"web_search_requests": 1}},
    # The last one, because the client compacts such a context before the next prompt.
    "long": {"input_tokens": _LONG_TOKENS},
}
_RATES = ("input", "output", "write_5m", "write_1h", "read")
_TERMS = ("fast", "us", "eu")


def measure(program: Path, model: str) -> dict[str, float]:
    """Return the price of each kind, in dollars per million tokens or per search.

    The result is empty if the client does not know the model's price.
    """
    script = {
        f"Kind {name}.": [say("ok", usage=_NO_TOKENS | usage, model=model)]
        for name, usage in KINDS.items()
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        MessagesApi(script, Path(folder, "requests.jsonl"), {}) as api,
    ):
        client = ClaudeCode(Path(folder), program, api.port)
        client.environ["DISABLE_AUTO_COMPACT"] = "1"
        costs = list(_ask_in_turn(client, program, model))
    if len(costs) < len(KINDS):
        return {}
    amounts = {"search": 10**6, "long": _LONG_TOKENS}
    return {
        name: round((cost - before) * 10**6 / amounts.get(name, _TOKENS), 6)
        for name, before, cost in zip(KINDS, [0.0, *costs], costs, strict=False)
    }


def _ask_in_turn(client: ClaudeCode, program: Path, model: str) -> Iterator[float]:
    """Yield the total cost after each kind; stop if the client has no price."""
    command = [str(program), "-p", "--model", model, "--verbose"]
    formats = ["--input-format", "stream-json", "--output-format", "stream-json"]
    with subprocess.Popen(
        [*command, *formats],
        cwd=client.work,
        env=client.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError
        for name in KINDS:
            message = {"role": "user", "content": f"Kind {name}."}
            process.stdin.write(json.dumps({"type": "user", "message": message}) + "\n")
            process.stdin.flush()
            result = next(
                json.loads(line) for line in process.stdout if '"type":"result"' in line
            )
            used = result.get("modelUsage", {})
            if any(one.get("costBasis") != "list" for one in used.values()):
                break
            if {normalize_model_name(name) for name in used} != {
                normalize_model_name(model)
            }:
                break
            yield result["total_cost_usd"]
        process.stdin.close()


def find_models(program: Path) -> set[str]:
    """Return the names of models that the program mentions."""
    with program.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return {
            match[1].decode()
            for match in _MODEL_NAME.finditer(content)
            if not match[1].startswith(b"claude-code")
        }


def table_models() -> set[str]:
    """Return the names of all models in our table."""
    path = Path(bygones.usage.prices.__file__).with_name("prices.toml")
    return {
        name
        for row in tomllib.loads(path.read_text())["price"]
        for name in row["models"]
    }


def expected_prices(prices: Prices, model: str) -> dict[str, float | None] | None:
    """Return our prices of the same kinds; a kind without a price is None."""
    (*_, price) = prices.for_model(model) or (None,)
    if price is None:
        return None
    result: dict[str, float | None] = dict(
        zip(_RATES, map(_dollars, price.standard.per_token), strict=True)
    )
    for term in _TERMS:
        rates = price.rates_for((term,))
        factor = Fraction(*rates.multiplier) if rates else None
        result[term] = _times(result["input"], factor)
    result["search"] = price.standard.per_search / PICOS_PER_DOLLAR
    threshold = price.long_context_threshold
    is_long = threshold is not None and threshold < _LONG_TOKENS
    long_rates = price.rates_for(is_long_context=is_long)
    result["long"] = _dollars(long_rates.per_token[0]) if long_rates else None
    return result


def _dollars(picos: int | None) -> float | None:
    return None if picos is None else picos * 10**6 / PICOS_PER_DOLLAR


def _times(rate: float | None, factor: Fraction | None) -> float | None:
    return (
        None
        if rate is None or factor is None
        else float(Decimal(str(rate)) * factor.numerator / factor.denominator)
    )


def describe_differences(
    model: str, measured: dict[str, float], ours: dict[str, float | None] | None
) -> Iterator[str]:
    """Yield a line for each price on which the client and our table disagree."""
    if not measured:
        yield f"{model}: the client has no price of its own"
        return
    if ours is None:
        yield f"{model}: not in the table; the client charges {json.dumps(measured)}"
        return
    for kind, price in measured.items():
        own = ours[kind]
        # For terms that it does not price, the client charges the plain price.
        is_plain = kind in _TERMS and price == measured["input"]
        if is_plain and own is None:
            continue
        if own is None or abs(own - price) > 1e-6:
            yield f"{model}: {kind} is {price:g} in the client, {_amount(own)} in the table"


def _amount(price: float | None) -> str:
    return "unknown" if price is None else f"{price:g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help="default: all")
    parser.add_argument("--version", default=PINNED_VERSION, help="or: latest")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    version = options.version
    if version == "latest":
        version = find_newest_version()
    program = install_client(version)
    if options.inside:
        enable_loopback()
        measured = {model: measure(program, model) for model in options.models}
        sys.stdout.write(json.dumps(measured))
        return 0
    for line in compare_prices(version, options.models):
        sys.stdout.write(f"{line}\n")
    return 0


def compare_prices(version: str, models: list[str]) -> Iterator[str]:
    """Measure models, by default all, and yield the differences from our table."""
    program = install_client(version)
    prices = load_prices()
    for model in models or sorted(table_models() | find_models(program)):
        output = run_isolated(
            "tests.client.prices", "--inside", "--version", version, model
        )
        measured = json.loads(output)[model]
        yield from describe_differences(model, measured, expected_prices(prices, model))


if __name__ == "__main__":
    sys.exit(main())
