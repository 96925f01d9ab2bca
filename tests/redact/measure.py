"""Measure how many secrets redaction finds, and how often it is wrong.

``python -m tests.redact.measure`` prints the figures of docs/guide/export.md.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from bygones.redact.engine import Redactor
from tests.redact.contexts import CONTEXT_HARMLESS, CONTEXTS, UNSEEN_CONTEXTS
from tests.redact.families import HARMLESS, LATER, SECRETS, is_measured_only
from tests.redact.newer_families import NEWER_HARMLESS, NEWEST, REVIEWED
from tests.redact.tokens import make_token
from tests.redact.transcripts import (
    LATER_TRANSCRIPT_HARMLESS,
    LATER_TRANSCRIPTS,
    TRANSCRIPT_HARMLESS,
    TRANSCRIPTS,
    UNSEEN_TRANSCRIPT_HARMLESS,
    UNSEEN_TRANSCRIPTS,
)

ROUNDS = 20
PERSONAL = {"email", "home", "user"}
REDACTOR = Redactor()


def find_secrets(text: str) -> Iterator[tuple[int, int]]:
    return (
        (found.start, found.end)
        for found in REDACTOR.find(text)
        if found.kind not in PERSONAL
    )


def split_template(template: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a text without marks and the spans of the secrets in it."""
    text = ""
    spans = []
    for number, part in enumerate(re.split("[⟦⟧]", template)):
        if number % 2:
            spans.append((len(text), len(text) + len(part)))
        text += part
    return text, spans


def is_found(template: str) -> bool:
    """Whether every character of the secrets in a template is redacted."""
    text, spans = split_template(template)
    redacted = {at for start, end in find_secrets(text) for at in range(start, end)}
    return all(redacted.issuperset(range(*span)) for span in spans)


SETS = {
    "first half": {n: t for n, t in SECRETS.items() if not is_measured_only(n)},
    "second half": {n: t for n, t in SECRETS.items() if is_measured_only(n)},
    "written later": LATER,
    "reviewed": REVIEWED,
    "newest": NEWEST,
    "contexts": CONTEXTS,
    "unseen contexts": UNSEEN_CONTEXTS,
    "transcripts": TRANSCRIPTS,
    "unseen transcripts": UNSEEN_TRANSCRIPTS,
    "later transcripts": LATER_TRANSCRIPTS,
}

HARMLESS_TEXTS = (
    *HARMLESS,
    *NEWER_HARMLESS,
    *CONTEXT_HARMLESS,
    *TRANSCRIPT_HARMLESS,
    *UNSEEN_TRANSCRIPT_HARMLESS,
    *LATER_TRANSCRIPT_HARMLESS,
)


def missed_families(families: Mapping[str, str], rounds: int = ROUNDS) -> Counter[str]:
    """Return how often the secret of each family was missed."""
    random = Random(1)  # noqa: S311 (not used for security)
    missed: Counter[str] = Counter()
    for name, template in families.items():
        tokens = (make_token(template, random) for _ in range(rounds))
        missed[name] = sum(not is_found(token) for token in tokens)
    return missed


def wrongly_redacted(rounds: int = ROUNDS) -> Counter[str]:
    """Return how often something was redacted in each harmless text."""
    random = Random(1)  # noqa: S311 (not used for security)
    return Counter(
        {
            template: sum(
                any(find_secrets(make_token(template, random))) for _ in range(rounds)
            )
            for template in HARMLESS_TEXTS
        }
    )


def library_findings() -> tuple[int, int]:
    """Return the length of Python's standard library and the findings in it."""
    folder = Path(sysconfig.get_path("stdlib"))
    paths = [path for path in folder.rglob("*.py") if "site-packages" not in path.parts]
    texts = [path.read_text("utf-8", "replace") for path in paths]
    return sum(map(len, texts)), sum(len([*find_secrets(text)]) for text in texts)


def main() -> None:
    lines = []
    for title, families in SETS.items():
        missed = missed_families(families)
        share = 1 - missed.total() / (ROUNDS * len(missed))
        lines.append(
            f"{title}: {len(missed)} families, {share:.1%} of the secrets redacted"
        )
        if "--missed" in sys.argv:
            lines += (f"  {name}: {count}" for name, count in missed.items() if count)
    wrong = wrongly_redacted()
    share = wrong.total() / (ROUNDS * len(wrong))
    lines.append(f"harmless: {len(wrong)} texts, {share:.1%} wrongly redacted")
    lines += (f"  {text!r}: {count}" for text, count in wrong.items() if count)
    length, count = library_findings()
    lines.append(f"standard library: {length / 1e6:.0f} MB, {count} redactions")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
