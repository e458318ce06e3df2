"""Reads the ZIP archives that Notion, ChatGPT and Claude export.

A large Notion export is an archive of archives, `Export-...-Part-1.zip`. Its pages are Markdown,
and its databases CSV.
"""

from __future__ import annotations

import re
import zipfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers import chats, text_files
from functions.jobs.ingest.readers.archives import open_archive
from functions.jobs.ingest.readers.decoding import decode_any
from functions.jobs.ingest.readers.file_names import NOTION_ID
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.links import LinkResolver
from functions.jobs.ingest.readers.notion import table
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    describe_excess,
    make_refusal,
)
from shared.core.ids import IdKind, make_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path, PurePath

    from functions.jobs.ingest.readers.archives import Archive
    from shared.knowledge.source import Source

MAX_BYTES: Final = 256 * MEGABYTE
"""The maximum size of a file. Larger ones consist mostly of pictures, and can be unpacked first."""
_CHATS: Final = re.compile(r"conversations[\w-]*\.json")
_NAME: Final = re.compile(r"(?:[\da-f-]+[_-])?Export(?:Block)?[-.]", re.IGNORECASE)
"""How the names of Notion's archives begin; of newer ones with an id."""
_Members = dict[PurePosixPath, "Archive"]


def is_export(path: Path) -> bool:
    """Return whether an archive looks like an export, even a damaged one."""
    try:
        with open_archive(path) as archive:
            return any(map(_is_own, archive.names))
    except OSError:
        return True  # reading it reports the error
    except Unreadable:
        # What has an end record was not cut off: it may only be large.
        return not zipfile.is_zipfile(path) or bool(_NAME.match(path.name))


def _is_own(name: str) -> bool:
    path = PurePosixPath(name)
    is_page = path.suffix in {".md", ".csv"} and NOTION_ID.search(path.stem)
    return bool(is_page) or _is_part(name) or bool(_CHATS.fullmatch(path.name))


def _is_part(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".zip" and bool(_NAME.match(path.name))


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the conversations, the pages, and the tables that have rows without a page.

    Raises:
        Unreadable: The archive is damaged, too large or not an export.
    """
    if reason := describe_excess(file.path.stat().st_size, MAX_BYTES):
        raise Unreadable(reason)
    with ExitStack() as stack:
        members = _list_members(file.path, stack)
        if not any(_is_own(str(path)) for path in members):
            raise Unreadable("is neither Notion's “Markdown & CSV” nor an export of conversations")
        ids = {path: _derive_id(file.collection, path) for path in members}
        for path, archive in members.items():
            name = f"{file.name}: {path}"
            page = replace(
                file,
                name=name,
                relative_path=str(path),
                assigned_source_id=ids[path],
                link_resolver=LinkResolver(path, lambda linked: ids.get(PurePosixPath(linked))),
            )
            whole = path.with_name(table.whole_name(path.name))
            if path.suffix == ".json":
                with archive.open(str(path)) as member:
                    yield from chats.read_stream(name, TextIOWrapper(member, "utf-8-sig"))
            elif path.suffix == ".md":
                yield Record(name, partial(_read_page, archive, page))
            elif whole == path or whole not in members:
                yield from _read_table(archive, page, members)


def _list_members(path: Path, stack: ExitStack) -> _Members:
    """Return the pages, tables and conversations, each with the archive that contains it."""
    whole = stack.enter_context(open_archive(path))
    parts = [stack.enter_context(whole.open_part(name)) for name in filter(_is_part, whole.names)]
    return {
        PurePosixPath(name): archive
        for archive in (whole, *parts)
        for name in archive.names
        if PurePosixPath(name).suffix in {".md", ".csv"}
        or _CHATS.fullmatch(PurePosixPath(name).name)
        if not name.startswith("__MACOSX/")
    }


def _derive_id(collection: str, path: PurePath) -> str:
    """Return the id of a page, which stays the same when the page is renamed."""
    match = NOTION_ID.search(path.stem)
    return make_id(IdKind.RECORD, f"{collection}-notion-{match[1] if match else path}")


def _read_page(archive: Archive, page: SourceFile) -> Source:
    content = decode_any(archive.read(page.relative_path))
    return text_files.make_source(page, content)


def _read_table(
    archive: Archive, file: SourceFile, members: Mapping[PurePosixPath, Archive]
) -> Iterator[Record]:
    path = PurePosixPath(file.relative_path)
    folders = [path.with_name(name) for name in table.list_folders(path.stem)]
    pages = [page.stem for page in members if page.suffix == ".md" and page.parent in folders]
    try:
        content = decode_any(archive.read(file.relative_path))
        yield from table.read_rows(file, content, pages)
    except Unreadable as error:
        yield make_refusal(file.name, str(error))


FORMAT: Final = Format(
    name="Archive exported by Notion, ChatGPT or Claude",
    extensions=(".zip",),
    read=read_records,
    max_bytes=MAX_BYTES,
    fields={
        "pages (`.md`)": "read as Markdown, with links between pages; titles lose Notion's id",
        "databases (`.csv`)": "one source of the rows that have no page of their own",
        "`conversations.json`": "read as that file is",
        "pictures and files": "left out",
    },
    example="Export-0123.zip: Boats 0123456789abcdef0123456789abcdef.md and other files; a folder"
    " with the same files is read in the same way\n",
    identity=Identity.RECORD,
)
