"""Lists the files at a path, and reads the listed files."""

from __future__ import annotations

import filecmp
import hashlib
import os
import re
import unicodedata
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.offline_files import has_placeholder, is_offline
from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.folder import list_files_below
from functions.jobs.ingest.readers.formats import Identity
from functions.jobs.ingest.readers.links import LinkResolver, Vaults
from functions.jobs.ingest.readers.reading import (
    FORMATS,
    InputProblem,
    count_kinds,
    describe_foreign,
    explain_os_error,
    find_format_by_name,
    find_identity,
    get_extension,
    read_entries,
    read_files,
)
from functions.jobs.ingest.readers.source_file import LinkList, SourceFile, derive_file_source_id
from functions.jobs.ingest.roots import find_root, register
from shared.core.errors import InvalidInput
from shared.knowledge.export_lines import KNOWLEDGE, MANIFEST
from shared.knowledge.source import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from functions.jobs.ingest.readers.links import Vault
    from functions.jobs.ingest.roots import Registration
    from shared.knowledge.followed_folders import Root

_OUTSIDE: Final = "is a link to a target outside the folder: ingest the target by itself"
_OFFLINE: Final = (
    "is not on this computer, only in the cloud: download it to have it read; what was read of it"
    " before stays"
)
_EXPORT: Final = "is a Carrel export: ingest it by itself"
_CONFLICT_WORDS: Final = (
    r"(?:conflict|conflit|konfli|ristirii|çak.ş|конфл|冲突|衝突|競合|충돌|modstrid|motstrid)"
)
"""What sync programs call a conflict, in the languages of Dropbox, OneDrive, Box and others."""
_CONFLICT: Final = re.compile(
    r"[ _-]?[(\[].*" + _CONFLICT_WORDS + r".*[)\]]"  # (conflicted copy 2024-06-01), (Case Conflict)
    r"|\..*" + _CONFLICT_WORDS + r".*"  # .sync-conflict-20240601-101500-ABCDEFG
    # _conflict-20240601-101500, _DiskStation_Jun-01-1015-2024_Conflict
    r"|[ _-](?=.*\d{4}).*" + _CONFLICT_WORDS + r".*"
    r"|-(?:desktop|laptop|win)-[0-9a-z]{6,8}(?:-\d+)?|-[\w-]*macbook[\w-]*"  # the name of a device
)
"""What sync programs add to the stem of a file of which two devices made versions, in lower case.
OneDrive adds the name of the device."""
_SEPARATOR: Final = re.compile(r"[ _.(\[-]")
"""Where a sync program may have begun to add to a name."""
_TEMPLATES: Final = "in the templates folder"
_LOGSEQ_BACKUPS: Final = frozenset({"bak", "version-files"})
"""The folders beside Logseq's settings that contain former versions of pages."""
_BACKUPS: Final = "among Logseq's backups"
_DRAWING: Final = ".excalidraw.md"
"""The extension of Excalidraw drawings in a vault, which contain drawing data instead of text."""
_ACCEPTED: Final = "Give a folder or a file: {}.".format(
    ", ".join(
        f"{file_format.name} ({', '.join(file_format.extensions) or 'no extension'})"
        for file_format in FORMATS
    )
)


@dataclass(frozen=True, slots=True)
class FileListing:
    """The files to read at a path.

    Attributes:
        folder: The given folder, or the folder of the given file.
        files: The files in supported formats: the path by which to open each file, by its path
            below the folder.
        problems: The folders, links and exports that are not read. Files are checked later.
        others: The number of files in other formats, by extension; "" for files without one.
        is_export: Whether the folder is a Carrel export, whose sources have their own ids.
        source_ids: The known ids of text files' sources, by absolute path.
    """

    folder: Path
    files: Mapping[str, Path]
    registration: Registration
    problems: Sequence[InputProblem] = ()
    others: Counter[str] = field(default_factory=Counter)
    is_export: bool = False
    source_ids: Mapping[Path, str] = field(default_factory=dict)
    is_single: bool = False
    vaults: Vaults = field(default_factory=Vaults, compare=False)

    @property
    def scope(self) -> Path:
        """The given folder or file."""
        return self.folder.joinpath(*self.files) if self.is_single else self.folder

    @property
    def is_named_after_folder(self) -> bool:
        """Whether the ids of any sources begin with the folder's name. Ids in exports do not."""
        if self.is_export:
            return False
        return any(find_identity(file) is not Identity.ORIGIN for file in self.files.values())

    def find_root(self, file: Path) -> Root:
        """Return the root of a file. The ids of the file's sources begin with the root's name."""
        return find_root(file, self.registration.roots) or self.registration.root

    def make_link_resolver(self, file: Path) -> LinkResolver:
        """Return a resolver for the links in a file."""
        boundary = _find_outermost_root(file, self.registration)
        return LinkResolver(file, self._find_linked_id, self.vaults.find_vault(file, boundary))

    def _find_linked_id(self, file: PurePath) -> str | None:
        """Return the id of a linked file's source; None if the file cannot be a source."""
        if find_format_by_name(file) is None or find_identity(file) is not Identity.FILE:
            return None
        path = Path(file)
        root = self.find_root(path)
        if path in self.source_ids or not path.is_relative_to(root.path):
            return self.source_ids.get(path)
        key = path.relative_to(root.path).as_posix()
        return derive_file_source_id(root.collection, key)

    @property
    def not_read(self) -> str:
        """The numbers of files in other formats, for people."""
        return count_kinds(self.others)


def read(path: Path) -> Iterator[Source | LinkList | InputProblem]:
    """Read a file or a folder as if no folder were registered; see `list_files`."""
    return read_listing(list_files(path))


def list_files(path: Path, roots: Sequence[Root] = ()) -> FileListing:
    """List the files to read in a file or a folder.

    In a folder, hidden files are skipped silently, files in other formats are counted, and symbolic
    links to targets outside are reported.

    Raises:
        InvalidInput: The path is missing, cannot be opened or has no supported file.
    """
    try:
        return _list_folder(path, roots) if path.is_dir() else _list_one(path, roots)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be opened: {error.strerror}. {_ACCEPTED}") from error


def take_fingerprint(folder: Path) -> str:
    """Hash the names, sizes and times of the files to read below a folder, and open none of them.

    A folder that is gone has the fingerprint of an empty one.
    """
    digest = hashlib.sha256()
    for path, real_path in list_files_below(folder, folder).files.items():
        if find_format_by_name(path):
            with suppress(OSError):
                status = real_path.stat()
                version = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                digest.update(os.fsencode(path) + f"\0{version}\n".encode())
    return digest.hexdigest()


def _list_one(file: Path, roots: Sequence[Root]) -> FileListing:
    if is_offline(file) or (has_placeholder(file) and not file.exists()):
        raise InvalidInput(f"{file} {_OFFLINE}.")
    if not file.is_file():
        raise InvalidInput(f"{file} is neither a file nor a folder. {_ACCEPTED}")
    if find_format_by_name(file) is None:
        raise InvalidInput(f"{file} has a format that cannot be read. {_ACCEPTED}")
    file.open("rb").close()
    folder = file.resolve().parent
    registration = register(folder, roots, [file.name])
    return FileListing(folder, {file.name: file}, registration, is_single=True)


def _list_folder(path: Path, roots: Sequence[Root]) -> FileListing:
    folder = path.resolve()
    registration = register(folder, roots)
    if (folder / MANIFEST).is_file():
        return _list_export(path, registration)
    below = list_files_below(folder, registration.root.path)
    vaults = Vaults()
    exports = {file.parent for file in below.files if file.name == MANIFEST}
    present = [file for file in below.files if exports.isdisjoint(file.parents)]
    files: dict[str, Path] = {}
    others: Counter[str] = Counter()
    foreign_files: list[InputProblem] = []
    for file in present:
        vault = vaults.find_vault(file, _find_outermost_root(file, registration))
        if (kind := _find_unread_kind(file, vault)) is not None:
            others[kind] += 1
        elif (reason := describe_foreign(file, below.files[file])) is None:
            files[file.relative_to(folder).as_posix()] = below.files[file]
        elif reason:
            foreign_files.append(InputProblem(_to_relative(folder, file), reason, kept=True))
        else:
            others[get_extension(file)] += 1
    problems = foreign_files + [
        InputProblem(_to_relative(folder, error.filename), explain_os_error(error))
        for error in below.errors
    ]
    problems += [
        InputProblem(_to_relative(folder, export), _EXPORT, kept=True) for export in sorted(exports)
    ]
    problems += [
        InputProblem(_to_relative(folder, file), _OFFLINE, kept=True)
        for file in below.offline
        if exports.isdisjoint(file.parents)
        and (find_format_by_name(file) or not file.suffix)  # a whole folder may be offline
        and not _find_unread_kind(
            file, vaults.find_vault(file, _find_outermost_root(file, registration))
        )
    ]
    problems += _drop_decomposed_copies(files)
    problems += _find_conflicts(files)
    for link in below.outside:
        if link.is_dir() or find_format_by_name(link):
            problems.append(InputProblem(_to_relative(folder, link), _OUTSIDE))
        else:
            others[get_extension(link)] += 1
    if not files and below.errors:
        raise below.errors[0]
    listing = FileListing(folder, files, registration, problems, others, vaults=vaults)
    if not files and not problems:
        contents = listing.not_read or "it is empty"
        raise InvalidInput(f"There is nothing to read in {path} ({contents}). {_ACCEPTED}")
    return listing


def _find_conflicts(names: Collection[str]) -> Iterator[InputProblem]:
    """Yield a warning for each copy that a sync program left beside its file."""
    by_key = {_fold_name(name): name for name in names}
    for key, name in by_key.items():
        path = PurePosixPath(key)
        for match in _SEPARATOR.finditer(path.stem, 1):
            stem, addition = path.stem[: match.start()], path.stem[match.start() :]
            original = by_key.get(str(path.with_name(stem + path.suffix)))
            if original and _CONFLICT.fullmatch(addition):
                beside = PurePosixPath(original).name
                reason = (
                    f"looks like a copy that a sync program left beside {beside}: merge the two"
                )
                yield InputProblem(to_one_line(name), reason, kept=True)
                break


def _drop_decomposed_copies(files: dict[str, Path]) -> list[InputProblem]:
    """Drop copies whose names differ only in Unicode form, and return a warning for each.

    A file from a Mac has a decomposed name, and its copy through another system a composed one. Two
    such files with different contents are both read.
    """
    problems: list[InputProblem] = []
    for name in [name for name in files if not unicodedata.is_normalized("NFC", name)]:
        composed = files.get(unicodedata.normalize("NFC", name))
        if composed is None:
            continue
        is_copy = composed.is_file() and filecmp.cmp(composed, files[name], shallow=False)
        outcome = "is the same file and read once" if is_copy else "is another text: merge the two"
        reason = f"has the name of another file in other Unicode characters, which {outcome}"
        problems.append(InputProblem(to_one_line(name), reason, kept=True))
        if is_copy:
            del files[name]
    return problems


def _fold_name(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _list_export(path: Path, registration: Registration) -> FileListing:
    folder = path.resolve()
    files = {file.name: file for file in sorted(folder.glob(KNOWLEDGE))}
    if not files:
        raise InvalidInput(f"{path} is a Carrel export without {KNOWLEDGE}.")
    return FileListing(folder, files, registration, is_export=True)


def _find_unread_kind(file: Path, vault: Vault | None) -> str | None:
    """Return the label under which a file that is not read is counted; None if it is read."""
    if find_format_by_name(file) is None:
        return get_extension(file)
    if vault and file.is_relative_to(vault.templates_folder):
        return _TEMPLATES
    if any(
        folder.name in _LOGSEQ_BACKUPS and (folder.parent / "config.edn").is_file()
        for folder in file.parents
    ):
        return _BACKUPS
    return _DRAWING if vault and file.name.lower().endswith(_DRAWING) else None


def _find_outermost_root(file: Path, registration: Registration) -> Path:
    """Return the outermost registered folder that contains a file."""
    paths = [root.path for root in (*registration.roots, registration.root)]
    enclosing = (path for path in paths if file.is_relative_to(path))
    return min(enclosing, key=lambda path: len(path.parts), default=registration.root.path)


def read_listing(
    listing: FileListing, *, without_books: bool = False
) -> Iterator[Source | LinkList | InputProblem]:
    """Read the listed files, and report the listed problems; see `read_files`."""
    yield from listing.problems
    files = [make_source_file(name, listing) for name in listing.files]
    earlier = _find_earlier_records(listing)
    yield from read_files(files, earlier, without_books=without_books)


def _find_earlier_records(listing: FileListing) -> dict[str, str]:
    """Return the names of records in earlier JSON Lines files of the same root, by source id.

    The id of such a record does not contain the file's path. If only an inner folder is read, its
    records must not replace records of the outer folder that have the same ids and come first.
    """
    root = listing.registration.root
    if listing.is_export or not root.whole or not any(map(_has_records, listing.files)):
        return {}
    first = listing.folder / next(iter(listing.files))
    files = {
        file.relative_to(root.path).as_posix(): real_file
        for file, real_file in list_files_below(root.path, root.path).files.items()
        if file < first and _has_records(file.name)
    }
    earlier = FileListing(root.path, files, listing.registration)
    records: dict[str, str] = {}
    for file in files:
        for name, entry in read_entries(make_source_file(file, earlier)):
            if isinstance(entry, Source):
                records.setdefault(entry.source_id, to_one_line(f"{root.path.name}/{name}"))
    return records


def _has_records(name: str) -> bool:
    return find_identity(PurePosixPath(name)) is Identity.RECORD


def make_source_file(name: str, listing: FileListing) -> SourceFile:
    """Return a listed file, with the values from which its source ids are derived."""
    file = listing.folder / name
    root = listing.find_root(file)
    path = listing.files[name]
    key = file.relative_to(root.path).as_posix()
    source_id = listing.source_ids.get(file)
    links = listing.make_link_resolver(file)
    return SourceFile(path, name, root.collection, key, _get_modified_at(path), source_id, links)


def _get_modified_at(file: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return None


def _to_relative(folder: Path, path: str | Path) -> str:
    return to_one_line(os.path.relpath(path, folder))
