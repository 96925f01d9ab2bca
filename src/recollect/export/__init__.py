"""EXPORT: sessions written to files, in any form, without what must not leave."""

from __future__ import annotations

from recollect.export.costs import coster
from recollect.export.folder import Chosen, Exported, export_folder
from recollect.export.making import Format, Making, made
from recollect.export.report import Tally
from recollect.export.scanning import suspicions
from recollect.export.single import export_session
from recollect.export.transcripts import Raws, transcripts

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
