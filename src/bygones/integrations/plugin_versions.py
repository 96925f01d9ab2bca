"""All versions of the plugin's files, by which those written earlier are recognized."""

from __future__ import annotations

from hashlib import sha256

_DIGESTS = frozenset(
    (
        # agents/recall.md
        "d1673d36601247812590bf98108c81dfb392178c6cb3152ea4c3a4478a6f4509",
        "5318ec4a1f17af26d48a447dcd28664ddfc456d2f9adab3984d9002abce73aec",
        # commands/resume.md
        "aa0e7423a564994fd6d0ab08746e71745b99e52a2e2b66e6380a90c2a9acbc7b",
        "3c19a0e2c68a91a252d0c6754d9a25a0bf88a22fa22e4c16b22553c38ad258b1",
        "402481ae5db56b6a6cbd80c63e84c64d0fe900eb65ff9cfad0a0b8caed87a64f",
        "259f6c7c3ecbc22cc2da1a17885ef426e595853bba4e5144a637c39007239e94",
        # commands/search.md
        "4d34219702fc5587f68259f66a58427cdc2948386ceb33a0659e584248f6c121",
        "284208f437bb668889c217a11552d2913729d109e39b1e9805ce698dbee9a9c2",
        "609b467ed5ad0fd622c58a67506cf16c36afef62b838ac9d98fa9428108b69f8",
        # commands/share.md
        "2c1befae6e902eaf6e3356555729e4eabd6f9b12f70254f6fc8d7eb6efd39a35",
        "3e91cada3969dbd998c4b719d57cd04774b94d0a5595ddb1b1066c3805bd108a",
        "f48d4271030083cca4fc0a95fd8c01b455a9b6023ac0071b27accb0e12232e53",
        # skills/recall/SKILL.md
        "3a2f3cef6a066247424dba33b4b47365857e7afb22a53b7646614c2da2ca3708",
        "1f3b7938d20fe64f57d50de55c648e3b6d058626f699ca345e93c6a276529522",
        "b279bd1f1159231137a2aa3abc57e848f9d9cc5d2589d5349de0bf34a336f227",
        "eb2f914a96a89cff928a9c11c3c310f63efab19d5ef67ec4fca1cb89564e6459",
        "84e535beff0a384d00def04e33ad0570ceb2bf47d2748ed7465d1468b7c2a167",
        "0b64085f02239bb17259c1eabd1354da5b16c97013b70c885b32902a34fd0610",
    )
)
"""SHA-256 of every version, oldest first; a new version is added, none is removed."""


def is_plugin_file(content: bytes) -> bool:
    """Return whether this is a file of the plugin, of this or an earlier version."""
    return sha256(content).hexdigest() in _DIGESTS
