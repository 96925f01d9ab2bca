"""Describing verifications."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec import structs

from bygones.model.reports import LastVerification
from bygones.render.headers import describe_verification

NOW = datetime(2026, 3, 1, tzinfo=UTC)


DEEP = " and the index equal to a rebuild"
SOUND = LastVerification(
    verified_at=NOW, is_sound=True, source_count=3, verified_bytes=2_000_000
)


@pytest.mark.parametrize(
    ("verified", "expected"),
    [
        (None, "never: bygones verify reads every byte"),
        (SOUND, "a day ago: 3 files, 2.0 MB sound"),
        (
            structs.replace(SOUND, is_deep=True, unverified_bytes=1_000),
            f"a day ago: 3 files, 2.0 MB sound{DEEP}; 1.0 kB came since",
        ),
        (
            structs.replace(SOUND, is_sound=False, damage_count=2),
            "a day ago: 2 damages in 3 files, 2.0 MB; bygones verify shows where",
        ),
        (
            structs.replace(SOUND, is_sound=False),
            "a day ago: 1 damage in 3 files, 2.0 MB; bygones verify shows where",
        ),
    ],
)
def test_verification_is_described(
    verified: LastVerification | None, expected: str
) -> None:
    assert describe_verification(verified, "a day ago") == expected
