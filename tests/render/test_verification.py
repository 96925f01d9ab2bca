"""Describing verifications."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec import structs

from bygones.model.reports import LastVerification
from bygones.render.headers import describe_verification

NOW = datetime(2026, 3, 1, tzinfo=UTC)


DEEP = "; index checked"
SOUND = LastVerification(
    verified_at=NOW, is_intact=True, source_count=3, verified_bytes=2_000_000
)


@pytest.mark.parametrize(
    ("verified", "expected"),
    [
        (None, "not yet; run `bygones verify`"),
        (SOUND, "a day ago: no damage in 3 files, 2.0 MB"),
        (
            structs.replace(SOUND, is_deep=True, unverified_bytes=1_000),
            f"a day ago: no damage in 3 files, 2.0 MB{DEEP}; 1.0 kB added since",
        ),
        (
            structs.replace(SOUND, accepted_bytes=20_000),
            "a day ago: no damage in 3 files, 2.0 MB; 20 kB accepted as lost",
        ),
        (
            structs.replace(SOUND, is_intact=False, damage_count=2),
            "a day ago: damage in 2 places (3 files, 2.0 MB); run `bygones verify`",
        ),
        (
            structs.replace(SOUND, is_intact=False),
            "a day ago: damage in 1 place (3 files, 2.0 MB); run `bygones verify`",
        ),
    ],
)
def test_verification_is_described(
    verified: LastVerification | None, expected: str
) -> None:
    assert describe_verification(verified, "a day ago") == expected
