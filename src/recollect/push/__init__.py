"""PUSH: sends what was named to a hub, masked; remembers nothing."""

from __future__ import annotations

from recollect.push.courier import Courier
from recollect.push.run import Pushed, Share, push

__all__ = ["Courier", "Pushed", "Share", "push"]
