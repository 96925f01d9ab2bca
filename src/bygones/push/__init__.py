"""PUSH: sends what was named to a hub, masked; remembers nothing."""

from __future__ import annotations

from bygones.push.courier import Courier
from bygones.push.run import Pushed, Share, push

__all__ = ["Courier", "Pushed", "Share", "push"]
