"""An export replaces its target folder as a whole, and only if that is an earlier export."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infra.export.replaced_folder import replace_folder
from shared.core.errors import Conflict, InvalidInput

MANIFEST = "manifest"
"""A folder with a file of this name is an earlier export."""
KILLED_PROGRAM = """
import os, signal, sys
from pathlib import Path
from infra.export.replaced_folder import replace_folder

target, moment = Path(sys.argv[1]), sys.argv[2]
rename = Path.rename

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def rename_once(path, target):
    rename(path, target)
    kill()

if moment == "between":
    Path.rename = rename_once
with replace_folder(target, "manifest", ["*"]) as new:
    (new / "manifest").write_text("second")
    if moment == "before":
        kill()
"""

"""Arguments: the target, and when the process kills itself.

`before`: before the new folder is renamed; `between`: after the first of two renames.
"""


def list_names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def write_export(target: Path, text: str) -> None:
    """Replace a folder by an export whose manifest has this text."""
    with replace_folder(target, MANIFEST, ["*"]) as new_folder:
        (new_folder / MANIFEST).write_text(text)


def test_a_new_folder_is_private(tmp_path: Path) -> None:
    write_export(tmp_path / "a/export", "first")
    assert (tmp_path / "a/export" / MANIFEST).read_text() == "first"
    assert (tmp_path / "a/export").stat().st_mode & 0o777 == 0o700
    assert list_names(tmp_path / "a") == ["export"]


def test_an_empty_folder_and_an_earlier_one_are_replaced_behind_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "export", tmp_path / "link"
    target.mkdir()
    link.symlink_to(target)
    write_export(link, "first")
    (target / "gone").touch()
    write_export(link, "second")
    assert link.is_symlink()
    assert list_names(target) == [MANIFEST]
    assert (target / MANIFEST).read_text() == "second"


def test_other_folders_and_added_files_are_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/note.md").touch()
    for name in ("mine", "mine/note.md"):
        with pytest.raises(InvalidInput, match=r"new or an? empty"):
            write_export(tmp_path / name, "first")
    assert list_names(tmp_path / "mine") == ["note.md"]

    target = tmp_path / "export"
    write_export(target, "first")
    (target / ".git").mkdir()
    new_folder = replace_folder(target, MANIFEST, ["*.jsonl"])
    with pytest.raises(InvalidInput, match=r"also contains \.git"), new_folder:
        pass
    assert set(list_names(target)) == {".git", MANIFEST}


def test_an_error_leaves_the_earlier_folder(tmp_path: Path) -> None:
    write_export(tmp_path / "export", "first")
    with pytest.raises(ZeroDivisionError), replace_folder(tmp_path / "export", MANIFEST, ["*"]):
        raise ZeroDivisionError
    assert (tmp_path / "export" / MANIFEST).read_text() == "first"
    assert list_names(tmp_path) == ["export"]


def test_an_export_during_another_is_refused(tmp_path: Path) -> None:
    with (
        replace_folder(tmp_path / "export", MANIFEST, ["*"]),
        pytest.raises(Conflict, match="Another"),
    ):
        write_export(tmp_path / "export", "second")
    write_export(tmp_path / "export", "third")


@pytest.mark.parametrize("moment", ["before", "between"])
def test_a_killed_export_leaves_the_earlier_folder(tmp_path: Path, moment: str) -> None:
    target = tmp_path / "export"
    write_export(target, "first")
    process = subprocess.run(
        [sys.executable, "-c", KILLED_PROGRAM, str(target), moment], check=False
    )

    assert process.returncode == -signal.SIGKILL

    with pytest.raises(ZeroDivisionError), replace_folder(target, MANIFEST, ["*"]):
        raise ZeroDivisionError
    assert (target / MANIFEST).read_text() == "first"

    write_export(target, "third")
    assert list_names(tmp_path) == ["export"]
