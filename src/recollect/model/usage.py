"""Token counts as the API reports them; cost is derived elsewhere."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["CacheWrites", "ServerTools", "WireUsage"]


class CacheWrites(Struct, frozen=True, kw_only=True, gc=False):
    """How cache writes split by how long they are kept."""

    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class ServerTools(Struct, frozen=True, kw_only=True, gc=False):
    """How often tools ran on the API's side."""

    web_search_requests: int | None = None
    web_fetch_requests: int | None = None


class WireUsage(Struct, frozen=True, kw_only=True, gc=False):
    """``message.usage`` as it stands in one record.

    Only one record of a message holds the final counts, and it need not be the
    last; any count may be missing, and broken gateways write negative ones.
    """

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheWrites | None = None
    output_tokens: int | None = None
    service_tier: str | None = None
    server_tool_use: ServerTools | None = None
    speed: str | None = None
    inference_geo: str | None = None
