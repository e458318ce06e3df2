"""Streams an export as a ZIP archive while it is written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from zipfile import ZIP_DEFLATED, ZipFile

from infra.export.exporting import export_all
from shared.core.meter import Meter
from shared.firestore.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.runtime.context import App

ROOT: Final = "carrel-export"
"""The folder in the archive, which `carrel ingest` reads once it is unpacked."""
_PAUSE: Final = 0.2
"""Seconds between two parts of the archive."""


async def stream_export(app: App, parent: Path, user: str) -> AsyncIterator[bytes]:
    """Export everything, with the traces, tasks and reviews of a user, as parts of an archive.

    Sources are sent, as Markdown, while others are still read. The JSON lines follow at the end,
    so only they need room on the disk. If the export fails, the archive ends early, and no program
    takes it for a whole one.

    Args:
        parent: Where to create the temporary folder with the JSON lines.
    """
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # noqa: ASYNC240 - one call
    output = _Output()
    with (
        TemporaryDirectory(dir=parent) as path,
        ZipFile(output, "w", ZIP_DEFLATED) as archive,
    ):
        folder = Path(path)

        def move(file: Path) -> None:
            archive.write(file, f"{ROOT}/{file.relative_to(folder)}")
            file.unlink()

        def move_sources(_count: int) -> None:
            for file in (folder / "markdown" / "sources").iterdir():
                move(file)

        database = Database(app.connection, Meter(), read_only=True)
        export = export_all(database, folder, user, move_sources, app.zone, with_kept_out=True)
        task = asyncio.create_task(export)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=_PAUSE)
                yield output.take()
            await task
        finally:
            task.cancel()
        for file in sorted(folder.rglob("*.*")):  # noqa: ASYNC240 - a few files
            await asyncio.to_thread(move, file)
            yield output.take()
    yield output.take()


class _Output:
    """The end of an archive that has not been sent yet."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes, /) -> int:
        self._data += data
        return len(data)

    def flush(self) -> None:
        """Do nothing. `ZipFile` requires this method and the next."""

    close = flush

    def take(self) -> bytes:
        data = bytes(self._data)
        self._data.clear()
        return data
