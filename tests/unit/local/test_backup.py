"""A backup brings back the base of one moment, whole or not at all, and nothing is overwritten."""

import fcntl
import io
import json
import resource
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from infra.file_lock import hold_lock
from infra.local import local_database
from infra.local.backup import FORMAT, MANIFEST, restore_backup, write_backup
from infra.local.embedded_firestore import files
from infra.local.embedded_firestore.copies import copy_files
from infra.local.local_database import use_local_database
from infra.local.state_use import UNPACKING
from shared.core.errors import Conflict, InvalidInput, NotFound, Unusable
from shared.firestore.connection import Connection

DEFAULT = "databases/carrel-local/default.sqlite"


@pytest.fixture
async def archive(state: Path, tmp_path: Path, close_databases: Callable[[], None]) -> Path:
    """The backup of a base with a note, an account, the secret and the mark of the sample."""
    await write_note("first")
    await write_note("account", "access")
    (state / "secret").write_text("the secret\n")
    local_database.LOADED_SAMPLE.write_text("digest")
    write_backup(tmp_path / "backup.tar")
    close_databases()
    return tmp_path / "backup.tar"


async def write_note(text: str, database: str = "(default)") -> None:
    """Write the only document of a database."""
    use_local_database()
    connection = Connection("carrel-local", database)
    await connection.client.document("notes/one").set({"text": text})
    await connection.aclose()


async def read_note(database: str = "(default)") -> Any:
    """Read the only document of a database."""
    use_local_database()
    connection = Connection("carrel-local", database)
    snapshot = await connection.client.document("notes/one").get()
    await connection.aclose()
    return snapshot.get("text")


def read_members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read() for name, file in files.items() if file}


def write_members(archive: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(archive, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def list_files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


async def test_a_restored_base_is_that_of_the_backup(
    state: Path, archive: Path, close_databases: Callable[[], None]
) -> None:
    await write_note("later")
    (state / "secret").write_text("another\n")
    close_databases()
    _, former = restore_backup(archive, replace=True)

    assert [await read_note(), await read_note("access")] == ["first", "account"]
    assert (state / "secret").read_text() == "the secret\n"
    assert local_database.LOADED_SAMPLE.read_text() == "digest"
    restored = [state / "secret", state / "databases", *(state / "databases").rglob("*")]
    assert {path.stat().st_mode & 0o077 for path in restored} == {0}

    close_databases()
    assert former
    assert former.parent == state
    for name in ("databases", "secret"):
        (state / name).rename(state / f"other-{name}")
        (former / name).rename(state / name)
    assert await read_note() == "later"
    assert (state / "secret").read_text() == "another\n"


async def test_a_base_is_restored_on_an_empty_machine(state: Path, archive: Path) -> None:
    shutil.rmtree(state)
    assert restore_backup(archive, replace=False).former is None
    assert await read_note() == "first"


def test_nothing_is_replaced_unasked_or_while_a_process_runs(state: Path, archive: Path) -> None:
    before = list_files(state)
    with pytest.raises(Conflict, match=r"holds a base already.* add --replace"):
        restore_backup(archive, replace=False)
    with (
        hold_lock(state, fcntl.LOCK_SH),
        pytest.raises(Conflict, match=f"Carrel runs on the data in {state}. Stop it"),
    ):
        restore_backup(archive, replace=True)
    assert list_files(state) == before


def test_no_process_starts_while_a_base_is_restored(state: Path, archive: Path) -> None:
    """Neither a second restore, nor a process that began when there was no folder."""
    with hold_lock(state), pytest.raises(Conflict, match=f"is being restored to {state}. Try"):
        restore_backup(archive, replace=True)
    state.rename(state.with_name("away"))
    use_local_database()
    state.mkdir()
    with hold_lock(state), pytest.raises(Conflict, match="is being restored"):
        local_database.open_local_database()
    assert not any(state.rglob("*.sqlite"))


def change_byte(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def change_manifest(members: dict[str, bytes], **fields: object) -> dict[str, bytes]:
    manifest = json.loads(members[MANIFEST]) | fields
    return members | {MANIFEST: json.dumps(manifest).encode()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[: len(content) // 2], "is damaged"),
        (lambda content: content[:700], "is damaged"),
        (change_byte, "is damaged"),
        (lambda _: b"", "is not a backup"),
        (lambda _: b"PK\3\4" * 500, "is not a backup"),
        (lambda content: content[512:], "is not a backup"),
    ],
    ids=["half", "start", "bit", "empty", "zip", "headless"],
)
def test_a_damaged_or_foreign_archive_is_refused(
    state: Path, archive: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    archive.write_bytes(change(archive.read_bytes()))
    before = list_files(state)
    with pytest.raises(InvalidInput, match=message):
        restore_backup(archive, replace=True)
    assert list_files(state) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda members: {"a": b"b"}, "is not a backup"),  # noqa: ARG005
        (lambda members: change_manifest(members, carrel_backup=FORMAT + 1), "later version"),
        (lambda members: change_manifest(members, carrel_backup="x"), "is damaged"),
        (lambda members: members | {MANIFEST: b"[]"}, "is damaged"),
        (lambda members: members | {"secret": b"swapped"}, "is damaged"),
        (lambda members: {name: members[name] for name in (MANIFEST, DEFAULT)}, "is damaged"),
        (lambda members: change_manifest(members, sha256={"../x": "0"}) | {"../x": b""}, "damaged"),
        (lambda members: change_manifest(members, sha256={"/x": "0"}) | {"/x": b""}, "is damaged"),
    ],
    ids=["tar", "later", "format", "list", "swapped", "incomplete", "outside", "absolute"],
)
def test_an_archive_of_other_members_is_refused(
    state: Path, archive: Path, change: Callable[[dict[str, bytes]], dict[str, bytes]], message: str
) -> None:
    write_members(archive, change(read_members(archive)))
    before = list_files(state.parent)
    with pytest.raises(InvalidInput, match=message):
        restore_backup(archive, replace=True)
    assert list_files(state.parent) == before


def test_a_database_of_a_later_version_is_refused(
    state: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list_files(state)
    monkeypatch.setattr(files, "FORMAT", 0)
    with pytest.raises(InvalidInput, match=r"backup.tar: .*later version.* Nothing was restored"):
        restore_backup(archive, replace=True)
    assert list_files(state) == before


async def test_the_next_process_finishes_a_killed_restore(
    state: Path, archive: Path, close_databases: Callable[[], None]
) -> None:
    """It is killed after the backup was unpacked, or when the former base was put aside."""
    restored = state / "restored-1"
    for is_aside in (False, True):
        await write_note("later")
        close_databases()
        (restored / local_database.FILES.relative_to(state)).mkdir(parents=True)
        for name, content in read_members(archive).items():
            if name != MANIFEST:
                (restored / name).write_bytes(content)
        if is_aside:
            (state / "replaced-1").mkdir()
            (state / "databases").rename(state / "replaced-1" / "databases")
            (state / "databases" / "new").mkdir(parents=True)  # by a process that starts meanwhile
        assert await read_note() == "first"
        close_databases()
        assert not restored.exists()
        (state / "replaced-1").rename(state / f"kept-{is_aside}")


@pytest.mark.usefixtures("archive")
async def test_the_next_process_deletes_half_a_killed_restore(state: Path) -> None:
    (state / UNPACKING).mkdir()
    (state / UNPACKING / "secret").write_bytes(b"half")
    assert await read_note() == "first"
    assert not (state / UNPACKING).exists()


def test_a_backup_is_private_and_leaves_nothing_else(state: Path, archive: Path) -> None:
    assert archive.stat().st_mode & 0o777 == 0o600
    names = {path.name for path in archive.parent.iterdir()}
    assert names == {"backup.tar", "credentials.json", "state"}
    assert not (state / ".backing-up" / "base").exists()


def test_a_backup_is_not_written_where_it_should_not_be(archive: Path) -> None:
    folder = archive.parent / "missing"
    with pytest.raises(NotFound, match="There is no folder"):
        write_backup(folder / "backup.tar")
    assert not folder.exists()
    before = archive.read_bytes()
    with pytest.raises(Conflict, match="exists already"):
        write_backup(archive)
    assert archive.read_bytes() == before


def test_a_full_disk_of_the_backup_is_named(archive: Path) -> None:
    """Every copy has room, but not all of them together."""
    target = archive.with_name("second.tar")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (archive.stat().st_size // 2 + 10_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            write_backup(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.filename == str(target)
    assert not list(archive.parent.glob("*second.tar*"))


@pytest.mark.usefixtures("state")
def test_without_a_database_there_is_no_backup(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no database in"):
        write_backup(tmp_path / "backup.tar")


def test_a_damaged_base_is_not_backed_up_as_whole(
    state: Path, archive: Path, tmp_path: Path
) -> None:
    with (state / DEFAULT).open("r+b") as file:
        file.seek(4_096 * 3)
        file.write(bytes(4_096 * 8))
    with pytest.raises(Unusable, match=f"{state / DEFAULT} is damaged"):
        write_backup(tmp_path / "second.tar")
    assert not (tmp_path / "second.tar").exists()
    assert archive.exists()


def test_copies_of_two_files_are_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes to both when the first file is being read, and the second not yet."""
    paths = [tmp_path / "a.sqlite", tmp_path / "b.sqlite"]
    writers = [apsw.Connection(str(path)) for path in paths]
    for writer in writers:
        writer.pragma("journal_mode", "WAL")
        writer.execute("CREATE TABLE t (n); INSERT INTO t VALUES (0)")
    statements: list[str] = []

    def write_once(cursor: apsw.Cursor, statement: str, _bindings: object) -> bool:
        is_second = cursor.connection.filename == str(paths[1])
        if is_second and statement.startswith("BEGIN") and not statements:
            statements.append(statement)
            for writer in writers:
                writer.execute("UPDATE t SET n = n + 1")
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = write_once

    monkeypatch.setattr(apsw, "connection_hooks", [watch])
    (tmp_path / "copies").mkdir()
    copy_files(paths, tmp_path / "copies")
    monkeypatch.setattr(apsw, "connection_hooks", [])
    copies = [apsw.Connection(str(tmp_path / "copies" / path.name)) for path in paths]
    assert [copy.execute("SELECT n FROM t").get for copy in copies] == [1, 1]
    assert statements
    for connection in (*writers, *copies):
        connection.close()


def test_a_backup_does_not_wait_for_a_long_commit(archive: Path, tmp_path: Path) -> None:
    writer = apsw.Connection(str(local_database.KNOWLEDGE))
    writer.execute("BEGIN IMMEDIATE; UPDATE meta SET value = 1 WHERE name = 'swept'")
    write_backup(tmp_path / "second.tar")
    writer.execute("ROLLBACK")
    writer.close()
    assert read_members(archive).keys() == read_members(tmp_path / "second.tar").keys()
