"""UPKEEP: what keeps an archive sound: verify, rebuild, back up, restore, purge."""

from __future__ import annotations

from bygones.upkeep.backup import backup
from bygones.upkeep.belongings import belongings
from bygones.upkeep.purge import Purged, purge
from bygones.upkeep.rebuild import rebuild
from bygones.upkeep.relocate import rewritten_cwd
from bygones.upkeep.restore import (
    Plan,
    Restored,
    Rewrite,
    Standing,
    kept_bytes,
    plan_restore,
    restore,
)
from bygones.upkeep.verdict import Damage, Verdict
from bygones.upkeep.verify import verify

__all__ = [
    "Damage",
    "Plan",
    "Purged",
    "Restored",
    "Rewrite",
    "Standing",
    "Verdict",
    "backup",
    "belongings",
    "kept_bytes",
    "plan_restore",
    "purge",
    "rebuild",
    "restore",
    "rewritten_cwd",
    "verify",
]
