"""Finds what links in text files lead to: by path in any folder, by name in a vault of Obsidian."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from functions.jobs.ingest.readers.folder import files_below
from functions.jobs.ingest.readers.front_matter import match_front_matter, parse_front_matter
from functions.jobs.ingest.readers.markdown import Markdown, without_wikilinks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_LINKS: Final = 500
"""A source keeps at most this many links: each takes three index entries."""
_SETTINGS: Final = ".obsidian"
_TEMPLATES: Final = "Templates"
_HEAD_BYTES: Final = 16_384
"""Aliases are read from this much of the beginning of a note."""
_NOTE: Final = ".md"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


@dataclass(frozen=True, slots=True)
class LinkTargets:
    """Finds the sources that the links in a file lead to.

    Attributes:
        file: The path of the file.
        source_id: Returns the id of the source of a file, whether or not it is stored yet; None if
            none can be made of it.
        vault: The vault that it is in, if any.
    """

    file: PurePath
    source_id: Callable[[PurePath], str | None]
    vault: Vault | None = None

    def find(self, markdown: Markdown) -> tuple[str, ...]:
        """Return the ids of the sources that a text links to, each once, in their order."""
        files = [
            *map(self._find_named, markdown.wikilinks),
            *map(self._find_at, markdown.addresses),
        ]
        others = (file for file in files if file is not None and file != self.file)
        ids = map(self.source_id, dict.fromkeys(others))
        return tuple(dict.fromkeys(name for name in ids if name is not None))

    def _find_named(self, target: str) -> PurePath | None:
        """Return the file that a wikilink names."""
        return self.vault.find(target, self.file) if self.vault and target else None

    def _find_at(self, address: str) -> PurePath | None:
        """Return the file at a relative address; in a vault, also one that the address names."""
        path = unquote(re.split("[?#]", address, maxsplit=1)[0])
        if not path or "\0" in path or path.startswith("/") or _SCHEME.match(address):
            return None
        file = self.file.parent.joinpath(path)
        normal = type(file)(os.path.normpath(file))
        if self.vault is None or self.vault.has(normal):
            return normal
        return self.vault.find(path, self.file)


class Vault:
    """A folder of Obsidian, with the names by which its notes link to each other."""

    def __init__(self, folder: Path, boundary: Path) -> None:
        """Store the arguments. Nothing is read yet.

        Args:
            folder: An absolute path without links.
            boundary: The folder that symbolic links must not leave.
        """
        self._folder = folder
        self._boundary = boundary

    @cached_property
    def templates(self) -> Path:
        """The folder of templates, by the settings of Obsidian, else `Templates`."""
        try:
            settings: Any = json.loads((self._folder / _SETTINGS / "templates.json").read_bytes())
            name = settings["folder"].strip("/")
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            name = ""
        return self._folder / (name or _TEMPLATES)

    def find(self, target: str, file: PurePath) -> PurePath | None:
        """Find the file that a link names, as Obsidian does, in any case of letters.

        The target is a path from the vault, or relative to the file with `./` or `../`. Else it is
        the end of a path, mostly only a name. Files in or below the folder of the linking file go
        first, then the shortest path. Else it is the alias of a note.

        Args:
            target: The target, with or without the ending `.md`.
            file: The file with the link.
        """
        if target.startswith(("./", "../")):
            path = Path(os.path.normpath(file.parent / target))
            if not path.is_relative_to(self._folder):
                return None
            target = path.relative_to(self._folder).as_posix()
        key = _normalize_name(target.strip("/"))
        for name in (key + _NOTE, key):
            files = self._by_name.get(name.rpartition("/")[2], ())
            if match := self._choose_best(files, name, file):
                return match
        return self._by_alias.get(key)

    def has(self, file: PurePath) -> bool:
        """Return whether a file is in the vault."""
        return file in self._files

    def _choose_best(self, files: Iterable[Path], name: str, file: PurePath) -> Path | None:
        """Return the best of the files whose path ends with a name, if there is one."""
        paths = {
            match: _normalize_name(match.relative_to(self._folder).as_posix()) for match in files
        }

        def order(match: Path) -> tuple[bool, bool, int, str]:
            path = paths[match]
            return path != name, not match.is_relative_to(file.parent), len(path), path

        matches = [match for match, path in paths.items() if f"/{path}".endswith(f"/{name}")]
        return min(matches, key=order, default=None)

    @cached_property
    def _files(self) -> dict[Path, Path]:
        """The files, with the paths by which to open them."""
        files = files_below(self._folder, self._boundary).files
        return {
            path: real for path, real in files.items() if not path.is_relative_to(self.templates)
        }

    @cached_property
    def _by_name(self) -> dict[str, list[Path]]:
        files: dict[str, list[Path]] = defaultdict(list)
        for file in self._files:
            files[_normalize_name(file.name)].append(file)
        return dict(files)

    @cached_property
    def _by_alias(self) -> dict[str, Path]:
        """The notes by their aliases; of several notes with the same one, the first."""
        notes: dict[str, Path] = {}
        for file, real_file in self._files.items():
            if file.suffix.lower() == _NOTE:
                for alias in _read_aliases(real_file):
                    notes.setdefault(_normalize_name(alias), file)
        return notes


class Vaults:
    """The vaults around files; each is found once."""

    def __init__(self) -> None:
        """Begin without any."""
        self._vaults: dict[Path, Vault | None] = {}

    def around(self, file: Path, boundary: Path) -> Vault | None:
        """Return the innermost vault that contains a file.

        Args:
            file: An absolute path.
            boundary: The folder above which no vault is looked for.
        """
        return self._find_at(file.parent, boundary) if file.is_relative_to(boundary) else None

    def _find_at(self, folder: Path, boundary: Path) -> Vault | None:
        if folder not in self._vaults:
            vault = None
            if (folder / _SETTINGS).is_dir():
                vault = Vault(folder, boundary)
            elif folder != boundary:
                vault = self._find_at(folder.parent, boundary)
            self._vaults[folder] = vault
        return self._vaults[folder]


def _read_aliases(file: Path) -> Iterator[str]:
    """Yield the aliases in the front matter of a note; none if it cannot be read."""
    try:
        with file.open("rb") as opened:
            head = opened.read(_HEAD_BYTES).decode("utf-8", "ignore")
    except OSError:
        return
    match = match_front_matter(head.removeprefix("\ufeff").replace("\r\n", "\n"))
    if match is None or "alias" not in match[1].lower():
        return
    front_matter = parse_front_matter(match[1])
    fields = front_matter.fields if front_matter else {}
    for value in (fields.get("alias"), fields.get("aliases")):
        names = value.split(",") if isinstance(value, str) else value
        if isinstance(names, list):
            yield from (without_wikilinks(alias) for alias in names if isinstance(alias, str))


def _normalize_name(name: str) -> str:
    """Return the form of a name by which it is compared: some systems decompose accents."""
    return unicodedata.normalize("NFC", name).strip().casefold()
