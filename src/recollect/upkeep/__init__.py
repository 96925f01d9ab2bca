"""UPKEEP: what keeps an archive sound: verify, rebuild, back up, restore, purge."""

from __future__ import annotations

from recollect.upkeep.purge import Purged, purge
from recollect.upkeep.rebuild import rebuild
from recollect.upkeep.restore import Plan, Restored, plan_restore, restore
from recollect.upkeep.verify import Damage, Verdict, verify

__all__ = [
    "Damage",
    "Plan",
    "Purged",
    "Restored",
    "Verdict",
    "plan_restore",
    "purge",
    "rebuild",
    "restore",
    "verify",
]
