"""Resolves links in text files: by path in any folder, by name in an Obsidian vault."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from functions.jobs.ingest.offline_files import is_offline
from functions.jobs.ingest.readers.fields import fold_text
from functions.jobs.ingest.readers.folder import list_files_below
from functions.jobs.ingest.readers.front_matter import match_front_matter, parse_front_matter
from functions.jobs.ingest.readers.markdown import Markdown, replace_wikilinks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_LINKS: Final = 500
"""A source keeps at most this many links. Firestore writes three index entries for each of them."""
_SETTINGS_FOLDER: Final = ".obsidian"
_DEFAULT_TEMPLATES: Final = "Templates"
_HEAD_BYTES: Final = 16_384
"""Only this many leading bytes of a note are searched for aliases."""
_NOTE_SUFFIX: Final = ".md"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


@dataclass(frozen=True, slots=True)
class LinkResolver:
    """Resolves the links in a file to sources.

    Attributes:
        get_source_id: Returns the id of a file's source, even if the source is not stored yet; None
            if the file cannot be a source.
    """

    file: PurePath
    get_source_id: Callable[[PurePath], str | None]
    vault: Vault | None = None

    def resolve(self, markdown: Markdown) -> tuple[str, ...]:
        """Return the distinct ids of the sources that the file's text links to.

        The targets of wikilinks come first, then the targets of other links.
        """
        files = [
            *map(self._resolve_wikilink, markdown.wikilinks),
            *map(self._resolve_address, markdown.addresses),
        ]
        others = (file for file in files if file is not None and file != self.file)
        source_ids = map(self.get_source_id, dict.fromkeys(others))
        return tuple(dict.fromkeys(source_id for source_id in source_ids if source_id is not None))

    def _resolve_wikilink(self, target: str) -> PurePath | None:
        """Return the file that a wikilink names; None outside a vault."""
        return self.vault.find(target, self.file) if self.vault and target else None

    def _resolve_address(self, address: str) -> PurePath | None:
        """Return the file at a relative address; in a vault, else look the address up by name.

        Outside a vault, the file need not exist.
        """
        path = unquote(re.split("[?#]", address, maxsplit=1)[0])
        if not path or "\0" in path or path.startswith("/") or _SCHEME.match(address):
            return None
        file = self.file.parent.joinpath(path)
        # Keep the type: the path of a download is not a `Path`.
        normalized = type(file)(os.path.normpath(file))
        if self.vault is None or normalized in self.vault:
            return normalized
        return self.vault.find(path, self.file)


class Vault:
    """An Obsidian vault, with the names by which its notes link to each other."""

    def __init__(self, folder: Path, boundary: Path) -> None:
        """Store the arguments. Nothing is read yet.

        Args:
            folder: An absolute path without symbolic links.
            boundary: The folder that symbolic links must not leave.
        """
        self._folder = folder
        self._boundary = boundary

    @cached_property
    def templates_folder(self) -> Path:
        """The templates folder: from Obsidian's settings, or `Templates`."""
        settings_file = self._folder / _SETTINGS_FOLDER / "templates.json"
        try:
            settings: Any = json.loads(settings_file.read_bytes())
            name = settings["folder"].strip("/")
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            name = ""
        return self._folder / (name or _DEFAULT_TEMPLATES)

    def find(self, target: str, linking_file: PurePath) -> PurePath | None:
        """Find the file that a link names, as Obsidian does, ignoring case.

        The target is a path from the vault, or with `./` or `../` from the linking file. Otherwise
        it is the end of a path, usually just a file name: files in or below the linking file's
        folder are preferred, then shorter paths. Failing that, it is a note's alias.

        Args:
            target: The target, with or without the extension `.md`.
        """
        if target.startswith(("./", "../")):
            path = Path(os.path.normpath(linking_file.parent / target))
            if not path.is_relative_to(self._folder):
                return None
            target = path.relative_to(self._folder).as_posix()
        key = fold_text(target.strip("/"))
        for name in (key + _NOTE_SUFFIX, key):
            files = self._by_name.get(name.rpartition("/")[2], ())
            if file := self._choose_best(files, name, linking_file):
                return file
        return self._by_alias.get(key)

    def __contains__(self, file: PurePath) -> bool:
        """Return whether a file is in the vault."""
        return file in self._files

    def _choose_best(self, files: Iterable[Path], name: str, linking_file: PurePath) -> Path | None:
        """Return the best of the files whose path ends with a name, or None.

        An exact path is best, then a file near the linking file, then the shortest path.
        """
        paths = {file: fold_text(file.relative_to(self._folder).as_posix()) for file in files}

        def sort_key(file: Path) -> tuple[bool, bool, int, str]:
            path = paths[file]
            return path != name, not file.is_relative_to(linking_file.parent), len(path), path

        matches = [file for file, path in paths.items() if f"/{path}".endswith(f"/{name}")]
        return min(matches, key=sort_key, default=None)

    @cached_property
    def _files(self) -> dict[Path, Path]:
        """The vault's files except templates, mapped to their real paths.

        The files that are not on this computer are among them, so that links to them stay.
        """
        below = list_files_below(self._folder, self._boundary)
        files = below.files | {file: file for file in below.offline}
        return {
            path: real
            for path, real in files.items()
            if not path.is_relative_to(self.templates_folder)
        }

    @cached_property
    def _by_name(self) -> dict[str, list[Path]]:
        files: dict[str, list[Path]] = defaultdict(list)
        for file in self._files:
            files[fold_text(file.name)].append(file)
        return dict(files)

    @cached_property
    def _by_alias(self) -> dict[str, Path]:
        """The notes by alias; if notes share an alias, the first wins."""
        notes: dict[str, Path] = {}
        for file, real_path in self._files.items():
            if file.suffix.lower() == _NOTE_SUFFIX:
                for alias in _read_aliases(real_path):
                    notes.setdefault(fold_text(alias), file)
        return notes


class Vaults:
    """Finds and caches the vaults that contain files."""

    def __init__(self) -> None:
        self._vault_by_folder: dict[Path, Vault | None] = {}

    def find_vault(self, file: Path, boundary: Path) -> Vault | None:
        """Return the innermost vault that contains a file.

        Args:
            file: An absolute path.
            boundary: The folder above which no vault is looked for. The cache ignores it, so it
                must be the same for all files in a folder.
        """
        return self._find_upwards(file.parent, boundary) if file.is_relative_to(boundary) else None

    def _find_upwards(self, folder: Path, boundary: Path) -> Vault | None:
        if folder not in self._vault_by_folder:
            vault = None
            if (folder / _SETTINGS_FOLDER).is_dir():
                vault = Vault(folder, boundary)
            elif folder != boundary:
                vault = self._find_upwards(folder.parent, boundary)
            self._vault_by_folder[folder] = vault
        return self._vault_by_folder[folder]


def _read_aliases(file: Path) -> Iterator[str]:
    """Yield the aliases in the front matter of a note; none if it cannot be read."""
    if is_offline(file):
        return
    try:
        with file.open("rb") as stream:
            head = stream.read(_HEAD_BYTES).decode("utf-8", "ignore")
    except OSError:
        return
    match = match_front_matter(head.removeprefix("\ufeff").replace("\r\n", "\n"))
    # Most notes have no alias, and parsing YAML is slow.
    if match is None or "alias" not in match[0].lower():
        return
    front_matter = parse_front_matter(match)
    fields = front_matter.fields if front_matter else {}
    for value in (fields.get("alias"), fields.get("aliases")):
        names = value.split(",") if isinstance(value, str) else value
        if isinstance(names, list):
            yield from (replace_wikilinks(alias) for alias in names if isinstance(alias, str))
