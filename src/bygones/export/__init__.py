"""EXPORT: sessions written to files, in any form, without what must not leave."""

from __future__ import annotations

from bygones.export.costs import coster
from bygones.export.folder import Chosen, Exported, export_folder
from bygones.export.making import Format, Making, made
from bygones.export.report import Tally
from bygones.export.scanning import suspicions
from bygones.export.single import export_session
from bygones.export.transcripts import Raws, transcripts

__all__ = [
    "Chosen",
    "Exported",
    "Format",
    "Making",
    "Raws",
    "Tally",
    "coster",
    "export_folder",
    "export_session",
    "made",
    "suspicions",
    "transcripts",
]
