"""Reads members of a ZIP archive from an untrusted author.

Members are read into memory by name, so a member called `../../x` does no harm. Only an archive
inside an archive is written to disk, to an unnamed temporary file. A ZIP bomb is rejected by its
declared sizes, before anything is unpacked. If it declares too small a size, `zipfile` unpacks only
that much, and the checksum fails.
"""

from __future__ import annotations

import shutil
import struct
import unicodedata
import zipfile
import zlib
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import unquote

from functions.jobs.ingest.readers.source_file import MEGABYTE, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_ENTRIES: Final = 10_000
"""The maximum number of members of an archive."""
MAX_UNPACKED: Final = 500 * MEGABYTE
"""The maximum declared size of all members together, including pictures, which are never read."""
MAX_MEMBER: Final = 16 * MEGABYTE
"""The maximum size of a member that is read."""
MAX_RATIO: Final = 200
"""The maximum ratio of unpacked to packed size. Text shrinks to a tenth, very repetitive text to a
hundredth, and a bomb to a thousandth."""
_RATIO_FROM: Final = 1 * MEGABYTE
"""Members that unpack to less may have any ratio."""
_MAX_DIRECTORY: Final = 4 * MEGABYTE
"""Enough for a directory of 10,000 entries with names of 350 bytes. `zipfile` reads all of it."""
_END: Final = struct.Struct("<4s4H2LH")
"""The layout of the end record, which follows the directory of an archive."""
_END_MARK, _ZIP64_MARK = b"PK\x05\x06", b"PK\x06\x07"
_ZIP64_LOCATOR_SIZE: Final = 20
"""The size of the record before the end record of a Zip64 archive, in bytes."""
_MAX_COMMENT: Final = 65_535
"""The maximum size of the comment that may follow the end record, in bytes."""
_DAMAGED: Final = "is damaged: download it again"
_ENCRYPTED: Final = "is encrypted: save a copy without a password"
_TOO_MANY: Final = f"has more than {MAX_ENTRIES:,} entries"


class Archive:
    """An open archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        """Check the number and the total size of members that the archive declares."""
        entries = archive.infolist()
        if len(entries) > MAX_ENTRIES:
            raise Unreadable(_TOO_MANY)
        if sum(entry.file_size for entry in entries) > MAX_UNPACKED:
            raise Unreadable(f"unpacks to more than {MAX_UNPACKED // MEGABYTE} MB")
        self._archive = archive
        folder = _find_common_folder([entry.filename for entry in entries])
        self._entries = {entry.filename: entry for entry in entries}
        self._entries_by_spelling = {
            _fold_spelling(entry.filename.removeprefix(folder)): entry for entry in entries
        }

    def __contains__(self, name: str) -> bool:
        """Return whether there is a member of this name."""
        return self._find(name) is not None

    @property
    def names(self) -> list[str]:
        """The names of the members in order, without folders."""
        return [name for name, entry in self._entries.items() if not entry.is_dir()]

    def read(self, name: str) -> bytes:
        """Unpack a member, or else one whose name is only written differently.

        Raises:
            Unreadable: The member is missing, damaged, encrypted, too large or a bomb.
        """
        entry = self._get(name, MAX_MEMBER)
        with _explain_damage():
            return self._archive.read(entry)

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a member of any size.

        Raises:
            Unreadable: The member is missing, damaged, encrypted or a bomb.
        """
        with _explain_damage(), self._archive.open(self._get(name, MAX_UNPACKED)) as member:
            yield member

    @contextmanager
    def open_part(self, name: str) -> Iterator[Archive]:
        """Open a member that is itself an archive.

        Raises:
            Unreadable: The member is missing, damaged, encrypted, too large or a bomb.
        """
        with TemporaryFile() as file:
            with self.open(name) as member:
                shutil.copyfileobj(member, file)
            with _open(file) as archive:
                yield archive

    def _get(self, name: str, max_bytes: int) -> zipfile.ZipInfo:
        entry = self._find(name)
        if entry is None:
            raise Unreadable(f"lacks {name}: download it again")
        if entry.file_size > max_bytes:
            raise Unreadable(f"has a part of more than {max_bytes // MEGABYTE} MB: {name}")
        if entry.file_size > max(_RATIO_FROM, MAX_RATIO * entry.compress_size):
            raise Unreadable(f"has a part that unpacks to {MAX_RATIO} times its size: {name}")
        if entry.flag_bits & 1:
            raise Unreadable(_ENCRYPTED)
        if entry.header_offset < 0:  # the beginning of the file is missing
            raise Unreadable(_DAMAGED)
        return entry

    def _find(self, name: str) -> zipfile.ZipInfo | None:
        return self._entries.get(name) or self._entries_by_spelling.get(_fold_spelling(name))


@contextmanager
def _explain_damage() -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise Unreadable(_DAMAGED) from error
    except (NotImplementedError, RuntimeError) as error:
        raise Unreadable("is packed in an unusual way: pack it again as ZIP") from error


def _find_common_folder(names: list[str]) -> str:
    """Return the folder, with its slash, that a program packed with all members; "" if none.

    macOS adds a second folder, `__MACOSX`.
    """
    members = [name for name in names if not name.startswith("__MACOSX/")]
    folder, slash, _ = members[0].partition("/") if members else ("", "", "")
    return folder + slash if all(name.startswith(f"{folder}/") for name in members) else ""


def _fold_spelling(name: str) -> str:
    """Return a name without what file systems and programs change: capitals, accents, `%20`."""
    return unicodedata.normalize("NFC", unquote(name)).replace("\\", "/").casefold()


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open an archive.

    Raises:
        Unreadable: The file is not a ZIP archive, damaged or too large.
        OSError: The file cannot be opened.
    """
    with path.open("rb") as file, _open(file) as archive:
        yield archive


@contextmanager
def _open(file: IO[bytes]) -> Iterator[Archive]:
    _check_directory(file)
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
        raise Unreadable(_DAMAGED) from error
    with archive:
        yield Archive(archive)


def _check_directory(file: IO[bytes]) -> None:
    """Refuse a directory that is too large to read.

    APPNOTE.TXT 6.3.10 defines the layout in 4.3.15 and 4.3.16. ZIP64 is for archives of more than
    4 GB or 65,535 entries.
    """
    size = file.seek(0, 2)
    tail_size = min(size, _END.size + _MAX_COMMENT + _ZIP64_LOCATOR_SIZE)
    file.seek(size - tail_size)
    tail = file.read(tail_size)
    start = tail.rfind(_END_MARK)
    if start < 0 or len(tail) < start + _END.size:
        raise Unreadable("is not a ZIP archive, or was cut off: download it again")
    *_, directory_size, _directory_offset, _comment_size = _END.unpack_from(tail, start)
    locator = tail[max(0, start - _ZIP64_LOCATOR_SIZE) : start]
    if directory_size > _MAX_DIRECTORY or locator.startswith(_ZIP64_MARK):
        raise Unreadable(_TOO_MANY)
