"""Local runs keep their data in files of their user, whatever credentials of a cloud there are."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from google.api_core.exceptions import FailedPrecondition
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector

from infra.build.discovery import ROOT
from infra.local import local_database, local_run
from infra.local.embedded_firestore.storage import Store
from infra.local.local_database import protect_state, use_local_database
from infra.local.processes import ServerProcess
from infra.local.state_disk import Mount
from shared.ai.local_embedding import LocalEmbedder
from shared.core.errors import PlatformFault, Unavailable, Unusable
from shared.core.target import CLOUD, TargetKind, get_target
from shared.firestore.connection import Connection

pytestmark = pytest.mark.usefixtures("state")


def get_mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_a_write_goes_to_a_file_and_not_to_the_cloud(state: Path) -> None:
    """Tests of this folder refuse every channel of gRPC."""
    use_local_database()
    connection = Connection("carrel-local", "(default)")
    await connection.client.document("notes/one").set({"text": "mine"})
    await connection.aclose()

    assert b"mine" in (state / "databases/carrel-local/default.sqlite-wal").read_bytes()


def test_without_a_choice_no_database_is_opened() -> None:
    with pytest.raises(PlatformFault, match="No database is chosen"):
        _ = Connection("real", "(default)").client


def test_a_choice_beats_the_environment_of_a_deployed_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("K_SERVICE", "carrel-search-kb")
    assert get_target() == CLOUD
    use_local_database()
    target = get_target()
    assert target
    assert target.kind is TargetKind.EMBEDDED


def test_an_emulator_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", "127.0.0.1:1")
    use_local_database()
    with pytest.raises(Unavailable, match=r"no emulator answers at 127\.0\.0\.1:1\. Start one"):
        _ = Connection("p", "(default)").client


def test_only_the_user_may_read_the_files(state: Path) -> None:
    state.mkdir(mode=0o755)
    (state / "secret").touch(mode=0o644)
    use_local_database()
    local_database.open_local_database()
    files = state / "databases" / "carrel-local"
    (files / "default.sqlite").chmod(0o644)
    files.chmod(0o755)
    protect_state()

    assert {get_mode(folder) for folder in (state, files.parent, files)} == {0o700}
    assert get_mode(state / "secret") == 0o600
    assert {path.name for path in files.iterdir()} >= {"default.sqlite", "default.sqlite-wal"}
    assert {get_mode(path) for path in files.iterdir()} == {0o600}


def test_what_its_user_closed_further_stays_closed(state: Path) -> None:
    files = state / "databases" / "carrel-local"
    files.mkdir(parents=True)
    for path, mode in ((files / "default.sqlite", 0o444), (files / "access.sqlite", 0o400)):
        path.touch()
        path.chmod(mode)
    protect_state()
    assert {get_mode(path) for path in files.iterdir()} == {0o400}


@pytest.mark.parametrize(
    ("name", "content"),
    [("default.sqlite", b"no database" * 100), ("access.sqlite", b"\0" * 5_000)],
)
def test_a_damaged_file_is_an_error_that_names_it(state: Path, name: str, content: bytes) -> None:
    files = state / "databases" / "carrel-local"
    files.mkdir(parents=True)
    (files / name).write_bytes(content)
    use_local_database()
    with pytest.raises(Unavailable, match=f"{name} is damaged"):
        local_database.open_local_database()


@pytest.mark.usefixtures("state")
def test_a_synchronised_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_database.list_notes() == []
    synchronised = tmp_path / "Dropbox" / "state"
    monkeypatch.setattr(local_database, "STATE", synchronised)
    [note] = local_database.list_notes()
    assert f"{synchronised} is in {tmp_path}/Dropbox, which a program seems to" in note
    assert "CARREL_STATE=/another/folder make run" in note


def test_a_network_drive_is_refused(state: Path) -> None:
    mounts = [Mount(Path("/"), "ext4"), Mount(state.parent, "nfs4")]
    with pytest.raises(
        Unusable, match=r"\(nfs4\), .* CARREL_STATE=/another/folder make run"
    ) as error:
        local_database.require_local_disk(mounts)
    assert f"Carrel cannot store data in {state}" in str(error.value)


@pytest.mark.parametrize("command", ["up", "stdio", "doctor"])
def test_windows_is_refused_in_a_sentence(command: str) -> None:
    """It has none of these modules."""
    missing = ["fcntl", "grp", "pwd", "resource", "termios"]
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({missing}));"
        f"from infra.cli.main import main; main(['{command}'])"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert process.returncode == 1
    assert process.stderr.startswith("Error: Carrel does not run on Windows itself")
    assert "WSL 2" in process.stderr


async def test_a_filtered_search_needs_its_index_and_waits_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_local_database()
    connection = Connection(local_database.PROJECT, "(default)")
    chunks = connection.client.collection("chunks")
    vector = Vector([1.0] * LocalEmbedder.dimension)
    await chunks.document("one").set({"embedding": vector, "facets": ["tag:a"]})
    monkeypatch.setattr(Store, "register_index", lambda _, index: pytest.fail(f"builds {index}"))
    nearest, undeclared = (
        chunks.where(filter=FieldFilter(field, "array_contains", "tag:a")).find_nearest(
            "embedding", vector, distance_measure=DistanceMeasure.COSINE, limit=1
        )
        for field in ("facets", "tags")
    )
    assert [snapshot.id for snapshot in await nearest.get()] == ["one"]
    with pytest.raises(FailedPrecondition, match='"fieldPath": "tags"'):
        await undeclared.get()
    await connection.aclose()


def test_a_run_on_an_emulator_does_not_end_for_want_of_files(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", "localhost:8081")
    monkeypatch.setattr(local_run, "KNOWLEDGE", state / "default.sqlite")
    monkeypatch.setattr(local_run, "POLL_SECONDS", 0.01)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        gateway = ServerProcess("http://localhost", process)
        with pytest.raises(click.ClickException, match=r"^A tool died\."):
            local_run._watch(gateway, lambda: "A tool")  # noqa: SLF001
        process.communicate(b"\n")
