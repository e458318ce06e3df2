"""A folder becomes sources with unique ids, whatever its files contain."""

import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from functions.jobs.ingest.listing import list_files, read, read_listing
from functions.jobs.ingest.readers.reading import InputProblem
from shared.core.errors import InvalidInput
from shared.knowledge.source import Source
from tests.support.source_files import (
    format_json_lines,
    read_only_source,
    read_problems,
    read_sources,
    read_warnings,
    write_file,
)


def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    for name in ("c.md", "b/z.TXT", "b/a.markdown", "a.md"):
        write_file(tmp_path, name, name)
    write_file(
        tmp_path,
        "b/docs.jsonl",
        format_json_lines({"id": "1", "text": "x"}, {"id": "2", "text": "y"}),
    )
    write_file(tmp_path, "d.md", "")
    expected = ["a.md", "b/a.markdown", "x", "y", "b/z.TXT", "c.md"]
    assert [source.text for source in read_sources(tmp_path)] == expected
    assert list(read(tmp_path)) == list(read(tmp_path))


def test_hidden_files_and_other_types_are_skipped(tmp_path: Path) -> None:
    for name in (".hidden.md", ".obsidian/app.json", "a/.trash/old.md", "picture.png", "README"):
        write_file(tmp_path, name, "Words.")
    write_file(tmp_path, "note.md", "Words.")
    write_file(tmp_path, "~$note.md", "\x07Ann")  # a lock of Office
    assert [source.title for source in read(tmp_path) if isinstance(source, Source)] == ["note"]
    assert read_problems(tmp_path) == []


OFFLINE = (
    "is not on this computer, only in the cloud: download it to have it read; what was read of it"
    " before stays"
)


@pytest.mark.parametrize("name", [".b.md.icloud", "b.md.nextcloud", "b.md.owncloud"])
def test_a_placeholder_is_named_for_the_file_it_stands_for(tmp_path: Path, name: str) -> None:
    write_file(tmp_path, "notes/a.md", "Words.")
    write_file(tmp_path, f"notes/{name}", "bplist")
    write_file(tmp_path, "notes/.picture.png.icloud", "bplist")
    write_file(tmp_path, ".Travels.icloud", "bplist")
    assert read_warnings(tmp_path) == [("Travels", OFFLINE), ("notes/b.md", OFFLINE)]
    with pytest.raises(InvalidInput, match="only in the cloud"):
        list_files(tmp_path / "notes/b.md")


@pytest.mark.parametrize(
    "fields",
    [
        {"st_flags": 0x4000_0000},
        {"st_file_attributes": 0x1000},
        {"st_file_attributes": 0x4_0000},
        {"st_file_attributes": 0x40_0000},
    ],
)
def test_a_file_without_data_is_named_and_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, int]
) -> None:
    write_file(tmp_path, "a.md", "Words.")
    offline = write_file(tmp_path, "b.md", "Must not be read.")
    real_stat = os.stat

    def stat_without_data(path: Any, *args: Any, **options: Any) -> Any:
        status = real_stat(path, *args, **options)
        return SimpleNamespace(st_mode=status.st_mode, **fields) if path == offline else status

    monkeypatch.setattr("functions.jobs.ingest.offline_files.os.stat", stat_without_data)
    assert [source.text for source in read_sources(tmp_path)] == ["Words."]
    assert read_warnings(tmp_path) == [("b.md", OFFLINE)]


@pytest.mark.parametrize(
    "copy",
    [
        "Keel.sync-conflict-20240601-101500-ABCDEFG.md",
        "Keel (conflicted copy 2024-06-01 101500).md",
        "Keel (Ann's conflicted copy 2024-06-02).md",
        "Keel (Anns in Konflikt stehende Kopie 2024-06-02).md",
        "Keel (SFConflict ann@example.com 2024-06-01-10-15-00).md",
        "Keel_conflict-20240102-101010.md",
        "Keel (Case Conflict 1).md",
        "keel (case conflict).md",
        "Keel (Conflicted copy of Ann 202406011015).md",
        "Keel (Konfliktkopie von Ann 2024-06-01).md",
        "Keel (Copie en conflit de Ann 2024-06-01).md",
        "Keel (Copia en conflicto de Ann 2024-06-01).md",
        "Keel (конфликтующая копия 2024-06-01).md",
        "Keel (Annの競合コピー 2024-06-01).md",
        "Keel [conflicted].md",
        "Keel.conflict.md",
        "Keel_DiskStation_Jun-01-1015-2024_Conflict.md",
        "Keel-DESKTOP-AB12CD3.md",
        "Keel-Anns-MacBook-Pro.md",
    ],
)
def test_a_copy_of_a_sync_program_is_named(tmp_path: Path, copy: str) -> None:
    write_file(tmp_path, f"a/{copy}", "Torque them to 95 Nm.")
    assert read_warnings(tmp_path) == []
    write_file(tmp_path, "a/Keel.md", "Torque them to 90 Nm.")
    reason = "looks like a copy that a sync program left beside Keel.md: merge the two"
    assert read_warnings(tmp_path) == [(f"a/{copy}", reason)]
    assert len(read_sources(tmp_path)) == 2


@pytest.mark.parametrize("name", ["Keel conflict.md", "Keel-laptop.md", "Keel-2024.md"])
def test_a_similar_name_is_no_conflict_copy(tmp_path: Path, name: str) -> None:
    write_file(tmp_path, "Keel.md", "Torque them to 90 Nm.")
    write_file(tmp_path, name, "Other words.")
    assert read_warnings(tmp_path) == []


def test_links_that_leave_the_folder_are_refused_by_name(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_file(root, "real/note.md", "Inside.")
    secret = write_file(tmp_path, "elsewhere/secret.md", "Outside.")
    (root / "real/passwords.md").symlink_to(secret)
    (root / "hop.md").symlink_to(root / "real/passwords.md")
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "picture.png").symlink_to(secret)
    reason = "is a link to a target outside the folder: ingest the target by itself"
    expected = [("hop.md", reason), ("linked", reason), ("real/passwords.md", reason)]
    assert read_problems(root) == expected
    assert [source.text for source in read_sources(root)] == ["Inside."]


def test_the_target_of_an_internal_link_is_read_once(tmp_path: Path) -> None:
    write_file(tmp_path, "real/note.md", "Inside.")
    (tmp_path / "a-link-to-real").symlink_to(tmp_path / "real")
    (tmp_path / "another.md").symlink_to("real/note.md")
    (tmp_path / "real/up").symlink_to(tmp_path)
    assert [source.title for source in read_sources(tmp_path)] == ["note"]
    assert read_problems(tmp_path) == []


def test_a_link_to_a_hidden_file_of_the_folder_is_read_once(tmp_path: Path) -> None:
    hidden = write_file(tmp_path, ".git/annex/objects/7f", "Words.")
    write_file(tmp_path, ".store/deep/b.md", "More.")
    (tmp_path / "b.md").symlink_to(".git/annex/objects/7f")
    (tmp_path / "a.md").symlink_to(hidden)
    (tmp_path / "linked").symlink_to(".store/deep")
    (tmp_path / ".store/deep/circle").symlink_to(tmp_path / ".store")
    assert [source.title for source in read_sources(tmp_path)] == ["a", "b"]
    assert [source.text for source in read_sources(tmp_path)] == ["Words.", "More."]


def test_a_link_changed_during_reading_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_file(root, ".annex/object", "Inside.")
    (root / "note.md").symlink_to(".annex/object")
    listing = list_files(root)
    (root / "note.md").unlink()
    (root / "note.md").symlink_to(write_file(tmp_path, "secret.md", "Outside."))
    (source,) = read_listing(listing)
    assert isinstance(source, Source)
    assert source.title == "note"
    assert source.text == "Inside."


def test_an_unreadable_file_is_reported_and_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle.jsonl").symlink_to(tmp_path / "circle.jsonl")
    os.mkfifo(tmp_path / "pipe.json")
    write_file(tmp_path, "note.md", "Words.")
    expected = [
        ("circle.jsonl", "cannot be opened: Too many levels of symbolic links"),
        ("gone.md", "cannot be opened: No such file or directory"),
        ("pipe.json", "is not a regular file"),
    ]
    assert read_problems(tmp_path) == expected
    assert len(read_sources(tmp_path)) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may open everything")
def test_an_unreadable_folder_is_reported_and_others_are_read(tmp_path: Path) -> None:
    write_file(tmp_path, "closed/note.md", "Words.").parent.chmod(0)
    write_file(tmp_path, "note.md", "Words.")
    items = list(read(tmp_path))
    (tmp_path / "closed").chmod(0o700)
    assert items[0] == InputProblem("closed", "cannot be opened: Permission denied")
    assert len(items) == 2


def test_a_source_keeps_its_id_when_its_folder_moves_or_its_file_is_read_alone(
    tmp_path: Path,
) -> None:
    files = [write_file(tmp_path, f"{at}/notes/b.md", "Words.") for at in ("old", "new/place")]
    ids = {read_only_source(path).source_id for file in files for path in (file, file.parent)}
    assert len(ids) == 1


@pytest.mark.parametrize("name", ["index.md", "index.jsonl"])
def test_same_file_names_in_two_folders_have_different_ids(tmp_path: Path, name: str) -> None:
    content = "Words." if name.endswith("md") else format_json_lines({"id": "1", "text": "Words."})
    work = read_only_source(write_file(tmp_path, f"work/{name}", content).parent)
    home = read_only_source(write_file(tmp_path, f"home/{name}", content).parent)
    assert work.source_id != home.source_id


def test_paths_that_differ_in_punctuation_have_different_ids(tmp_path: Path) -> None:
    for name in ("a/b.md", "a-b.md", "a_b.md", "a b.md", "a.b.md", "a/b.txt"):
        write_file(tmp_path, name, "Words.")
    ids = {source.source_id for source in read_sources(tmp_path)}
    assert len(ids) == 6
    assert all(re.fullmatch(r"[\w-]{1,64}", record_id) for record_id in ids)


def test_an_id_in_two_files_is_reported_with_both_paths(tmp_path: Path) -> None:
    write_file(tmp_path, "a.jsonl", format_json_lines({"id": "7", "text": "x"}))
    write_file(tmp_path, "b.jsonl", format_json_lines({"id": "7", "text": "y"}))
    expected = [("b.jsonl line 1", "has the id of a.jsonl line 1; keep one of the two")]
    assert read_problems(tmp_path) == expected


@pytest.mark.parametrize("name", ["missing", "missing.md", "image.png", "empty", "a\0b"])
def test_a_path_with_nothing_to_read_is_refused_at_once(tmp_path: Path, name: str) -> None:
    write_file(tmp_path, "image.png", b"\x89PNG")
    write_file(tmp_path, "empty/other.png", b"\x89PNG")
    with pytest.raises(InvalidInput, match=r"Give a folder or a file: .*\.jsonl"):
        read(tmp_path / name)


def test_former_versions_of_a_graphs_pages_are_not_read(tmp_path: Path) -> None:
    for name in ("pages/Reefs.md", "logseq/bak/pages/Reefs/2024.md", "bak/Old.md"):
        write_file(tmp_path, name, f"Of {name}.")
    write_file(tmp_path, "logseq/config.edn", "{}")
    assert [source.title for source in read_sources(tmp_path)] == ["Old", "Reefs"]
    assert list_files(tmp_path).not_read == "1 .edn, 1 among Logseq's backups"
