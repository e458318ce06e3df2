"""Lists the files at a path, detects their formats, and reads their sources."""

from __future__ import annotations

import filecmp
import os
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.offline_files import has_placeholder, is_offline
from functions.jobs.ingest.readers import foreign, json_lines, text_files
from functions.jobs.ingest.readers.epub import book
from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.folder import list_files_below
from functions.jobs.ingest.readers.formats import BEGINNING_BYTES, Identity
from functions.jobs.ingest.readers.html import page
from functions.jobs.ingest.readers.kindle import clippings, notebook
from functions.jobs.ingest.readers.links import LinkResolver, Vaults
from functions.jobs.ingest.readers.pdf import document
from functions.jobs.ingest.readers.readwise import csv_export, export
from functions.jobs.ingest.readers.source_file import (
    SourceFile,
    Unreadable,
    derive_file_source_id,
    describe_excess,
)
from functions.jobs.ingest.roots import find_root, register
from shared.core.errors import InvalidInput
from shared.knowledge.export_lines import KNOWLEDGE, MANIFEST
from shared.knowledge.source import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from functions.jobs.ingest.readers.formats import Format
    from functions.jobs.ingest.readers.links import Vault
    from functions.jobs.ingest.readers.source_file import Record
    from functions.jobs.ingest.roots import Registration, Root

FORMATS: Final = (
    clippings.FORMAT,
    text_files.FORMAT,
    json_lines.FORMAT,
    export.FORMAT,
    csv_export.FORMAT,
    notebook.FORMAT,
    page.FORMAT,
    document.FORMAT,
    book.FORMAT,
)
"""All formats. A file is read with the first format that matches its name and its content."""
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
_EXTENSION: Final = re.compile(r"\.\w{1,10}")
"""The extension of a file name. Longer text after a dot is part of a title."""
_MAX_KINDS: Final = 10
"""The maximum number of extensions that a count of unread files names."""
_TEMPLATES: Final = "in the templates folder"
_DRAWING: Final = ".excalidraw.md"
"""The extension of Excalidraw drawings in a vault, which contain drawing data instead of text."""
_ACCEPTED: Final = "Give a folder or a file: {}.".format(
    ", ".join(
        f"{file_format.name} ({', '.join(file_format.extensions)})" for file_format in FORMATS
    )
)


@dataclass(frozen=True, slots=True)
class InputProblem:
    """A file or a record that was left out completely or in part.

    Attributes:
        name: The path below the folder that is read; for a record, with its line or book.
        kept: Whether only the invalid part was left out.
    """

    name: str
    reason: str
    kept: bool = False


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


def count_kinds(others: Counter[str]) -> str:
    """Format the numbers of files by extension, in descending order: `3 .pdf, 2 .csv`."""
    ordered = sorted(others.items(), key=lambda kind: (-kind[1], not kind[0], kind[0]))
    commonest = ordered[:_MAX_KINDS]
    rest = others.total() - sum(count for _, count in commonest)
    parts = [f"{count} {extension or 'without an extension'}" for extension, count in commonest]
    return ", ".join([*parts, f"{rest} of other kinds"] if rest else parts)


def find_format_by_name(file: PurePath) -> Format | None:
    """Return the fallback format for files with this name, or None if there is no such format."""
    candidates = (candidate for candidate in FORMATS if candidate.recognizes is None)
    return next((candidate for candidate in candidates if candidate.matches_name(file)), None)


def detect_format(file: SourceFile) -> Format | None:
    """Return the format that recognizes how a file begins, or else the fallback for its name.

    A file that cannot be opened has the fallback format, too.
    """
    name = PurePosixPath(file.name)
    special = [
        candidate for candidate in FORMATS if candidate.recognizes and candidate.matches_name(name)
    ]
    if special:
        beginning = _read_beginning(file.path)
        for candidate in special:
            if candidate.recognizes and candidate.recognizes(beginning):
                return candidate
    return find_format_by_name(name)


def _read_beginning(path: Path) -> bytes:
    # Opening a pipe would block for ever.
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as content:
            return content.read(BEGINNING_BYTES)
    except OSError:
        return b""


def find_identity(file: PurePath) -> Identity:
    """Return from what the ids of a file's sources are derived; its path if it has no format."""
    file_format = find_format_by_name(file)
    return file_format.identity if file_format else Identity.FILE


def read(path: Path) -> Iterator[Source | InputProblem]:
    """Read a file or a folder as if no folder were registered; see `list_files`."""
    return read_listing(list_files(path))


def list_files(path: Path, roots: Sequence[Root] = ()) -> FileListing:
    """List the files to read in a file or a folder.

    In a folder, hidden files are skipped silently, files in other formats are counted, and symbolic
    links to targets outside are reported.

    Args:
        path: A folder, or a file in a supported format.

    Raises:
        InvalidInput: The path is missing, cannot be opened or has no supported file.
    """
    try:
        return _list_folder(path, roots) if path.is_dir() else _list_one(path, roots)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be opened: {error.strerror}. {_ACCEPTED}") from error


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
        InputProblem(_to_relative(folder, error.filename), _explain_os_error(error))
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
    return _DRAWING if vault and file.name.lower().endswith(_DRAWING) else None


def describe_foreign(name: PurePath, path: Path) -> str | None:
    """Return why a file of another program is not read, "" to count it, None if it is read."""
    if name.suffix.lower() not in foreign.EXTENSIONS:
        return None
    return foreign.describe_foreign(name, _read_beginning(path)) if path.is_file() else None


def _find_outermost_root(file: Path, registration: Registration) -> Path:
    """Return the outermost registered folder that contains a file."""
    paths = [root.path for root in (*registration.roots, registration.root)]
    enclosing = (path for path in paths if file.is_relative_to(path))
    return min(enclosing, key=lambda path: len(path.parts), default=registration.root.path)


def get_extension(file: PurePath) -> str:
    """Return the extension of a file name, in lower case; "" if there is none."""
    extension = file.suffix.lower()
    return extension if _EXTENSION.fullmatch(extension) else ""


def read_listing(
    listing: FileListing, *, without_books: bool = False
) -> Iterator[Source | InputProblem]:
    """Read the listed files, and report the listed problems; see `read_files`."""
    yield from listing.problems
    files = [make_source_file(name, listing) for name in listing.files]
    earlier = _find_earlier_records(listing)
    yield from read_files(files, earlier, without_books=without_books)


def read_files(
    files: Iterable[SourceFile],
    earlier: Mapping[str, str] = MappingProxyType({}),
    *,
    without_books: bool = False,
) -> Iterator[Source | InputProblem]:
    """Read files one at a time.

    A broken file or record is reported and skipped. If several records have the same id, the first
    one is used and the later ones are reported, but those of logs of additions are all used. Logs
    come last, the oldest first, so that the latest version of a highlight wins. Sources that a log
    names as deleted come at the end, unless a later log has them again.

    Args:
        earlier: The names of records that come before these files, by source id.
        without_books: Whether to skip Readwise books silently.
    """
    record_names = dict(earlier)
    deleted: dict[str, Source] = {}
    for file in sorted(files, key=_make_age_key):
        for record_name, entry in read_entries(file):
            record = to_one_line(record_name)
            if isinstance(entry, Unreadable):
                yield InputProblem(record, str(entry))
            elif without_books and export.is_book(entry.source_id):
                continue
            elif entry.adds_only and entry.is_deleted:
                deleted[entry.source_id] = entry
            elif entry.source_id in record_names and not entry.adds_only:
                yield InputProblem(record, describe_duplicate(record_names[entry.source_id]))
            else:
                record_names[entry.source_id] = record
                deleted.pop(entry.source_id, None)
                for warning in entry.warnings:
                    yield InputProblem(record, warning, kept=True)
                yield entry
    yield from deleted.values()


def _make_age_key(file: SourceFile) -> tuple[bool, float]:
    """Return a key that sorts logs by age, after the other files."""
    is_log = find_identity(PurePosixPath(file.name)) is Identity.ORIGIN
    modified_at = file.modified_at if is_log else None
    return is_log, modified_at.timestamp() if modified_at else 0.0


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


def describe_duplicate(first: str) -> str:
    """Return the message for a record that has the id of an earlier record."""
    return f"has the id of {first}; keep one of the two"


def explain_excess(name: str, size: int) -> str | None:
    """Return why a file with this name is too large to read, or None. `size` is in bytes."""
    file_format = find_format_by_name(PurePosixPath(name))
    return describe_excess(size, file_format.max_bytes) if file_format else None


def read_entries(file: SourceFile) -> Iterator[tuple[str, Source | Unreadable]]:
    """Yield the name of each record, with its source or the reason why it cannot be read."""
    try:
        if file.path.exists() and not file.path.is_file():
            yield file.name, Unreadable("is not a regular file")
            return
        if reason := describe_foreign(PurePosixPath(file.name), file.path):
            yield file.name, Unreadable(reason)
        elif file_format := detect_format(file):
            for record in file_format.read(file):
                yield record.name, _read(record, file_format)
    except Unreadable as error:
        yield file.name, error
    except OSError as error:
        yield file.name, Unreadable(_explain_os_error(error))


def _read(record: Record, file_format: Format) -> Source | Unreadable:
    try:
        source = record.read()
        return replace(source, adds_only=True) if file_format.adds_only else source
    except Unreadable as error:
        return error
    except OSError as error:
        return Unreadable(_explain_os_error(error))


def _explain_os_error(error: OSError) -> str:
    return f"cannot be opened: {error.strerror}"


def _to_relative(folder: Path, path: str | Path) -> str:
    return to_one_line(os.path.relpath(path, folder))
