"""What the console offers only where Carrel runs on a laptop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functions.gateway.console.add import Uploads
    from functions.gateway.console.export import StreamExport
    from functions.gateway.console.visits import FindFile


@dataclass(frozen=True, slots=True)
class LocalServices:
    """What the console can do where the files and the database are on its machine.

    Attributes:
        uploads: Receives files that people add.
        find_file: Finds the file of a source.
        stream_export: Exports what is stored.
    """

    uploads: Uploads | None = None
    find_file: FindFile | None = None
    stream_export: StreamExport | None = None
