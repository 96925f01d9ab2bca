"""UPKEEP: what keeps an archive sound: verify, rebuild, back up, restore, purge."""

from __future__ import annotations

from recollect.upkeep.backup import backup
from recollect.upkeep.belongings import belongings
from recollect.upkeep.purge import Purged, purge
from recollect.upkeep.rebuild import rebuild
from recollect.upkeep.relocate import rewritten_cwd
from recollect.upkeep.restore import (
    Plan,
    Restored,
    Rewrite,
    Standing,
    kept_bytes,
    plan_restore,
    restore,
)
from recollect.upkeep.verdict import Damage, Verdict
from recollect.upkeep.verify import verify

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
