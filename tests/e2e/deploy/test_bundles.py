"""A bundle contains the code of one function and its requirements, and nothing else.

A manifest lists the bundles. The name of a bundle contains a hash of its content.
"""

import json
import re
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from infra.build import bundles, requirements
from infra.build.bundles import pack, stage
from infra.build.functions import Function, functions
from infra.build.imports import follow_imports
from infra.build.requirements import CONSTRAINTS, find_requirements, lock_requirements
from shared.core.errors import InvalidInput

STAGED_NAMES = ["gateway", "get_chunk", "search_kb", "index", "ingest"]
TWO_NAMES = ["get_chunk", "search_kb"]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with staged bundles."""
    target = tmp_path_factory.mktemp("dist")
    stage(target, only=STAGED_NAMES)
    return target


@pytest.fixture(scope="module")
def manifest(target: Path) -> dict[str, Any]:
    """The functions in the manifest of the staged bundles, by key."""
    content: dict[str, Any] = json.loads((target / "manifest.json").read_text())["functions"]
    return content


def parse_requirement_names(requirements: Path) -> set[str]:
    """Return the names of the packages that a file of requirements pins."""
    return {line.split("==")[0] for line in requirements.read_text().splitlines() if "==" in line}


def test_every_selected_function_is_in_the_manifest(manifest: dict[str, Any]) -> None:
    assert manifest.keys() == {name.replace("_", "-") for name in STAGED_NAMES}


def test_a_bundle_contains_its_functions_entry_point(target: Path) -> None:
    """Tools and jobs have no entry point in the repository."""
    programs = {
        function.key: function.main for function in functions() if function.name in STAGED_NAMES
    }
    sources = {key: (target / key / "main.py").read_text("utf-8") for key in programs}
    assert sources == programs
    assert "from functions.tools.knowledge.get_chunk.tool import TOOL" in sources["get-chunk"]
    assert "handle = serve_job(JOB)" in sources["index"]


def test_only_the_gateways_bundle_has_carrels_version(target: Path) -> None:
    """The MCP server reads it as that of a distribution, which is not installed there."""
    [metadata] = target.glob("*/carrel.dist-info/METADATA")
    assert metadata.is_relative_to(target / "gateway")
    assert metadata.read_text("utf-8") == f"Name: carrel\nVersion: {version('carrel')}\n"


def test_an_archive_contains_the_files_of_its_folder(
    target: Path, manifest: dict[str, Any]
) -> None:
    for key, entry in manifest.items():
        with zipfile.ZipFile(target / entry["bundle"]) as archive:
            archive_files = {name: archive.read(name) for name in archive.namelist()}
        folder = target / key
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert archive_files == {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_same_sources_make_the_same_archives(tmp_path: Path, manifest: dict[str, Any]) -> None:
    repeated_manifest = stage(tmp_path, only=TWO_NAMES)["functions"]
    assert repeated_manifest == {key: manifest[key] for key in ("get-chunk", "search-kb")}
    for entry in manifest.values():
        assert re.fullmatch(r"bundles/[a-z-]+-[0-9a-f]{16}\.zip", entry["bundle"])


def test_the_archives_name_does_not_depend_on_compression(target: Path, tmp_path: Path) -> None:
    archives = {}
    for level in (1, 9):
        (tmp_path / str(level)).mkdir()
        archives[level] = pack(target / "get-chunk", tmp_path / str(level), "get-chunk", level)
    assert archives[1].read_bytes() != archives[9].read_bytes()
    assert archives[1].name == archives[9].name


@pytest.mark.parametrize(("name", "content"), [("a.py", "2"), ("b.py", "1")])
def test_the_archives_name_depends_on_content_and_paths(
    tmp_path: Path, name: str, content: str
) -> None:
    names = []
    for file_name, text in [("a.py", "1"), (name, content)]:
        folder = tmp_path / f"{file_name}{text}"
        folder.mkdir()
        (folder / file_name).write_text(text)
        names.append(pack(folder, tmp_path, "key").name)
    assert len(set(names)) == 2


def test_only_files_of_an_earlier_run_are_deleted(tmp_path: Path) -> None:
    stage(tmp_path, only=["get_chunk", "list_tags"])
    stray = tmp_path / "get-chunk" / "stray.py"
    stray.write_text("")
    (tmp_path / "bundles" / "old-0123456789abcdef.zip").write_text("")
    others = [tmp_path / "laptop" / "lock", tmp_path / "notes.json"]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.write_text("")
    content = stage(tmp_path, only=["get_chunk"])
    assert not stray.exists()
    names = [path.name for path in (tmp_path / "bundles").iterdir()]
    assert names == [Path(content["functions"]["get-chunk"]["bundle"]).name]
    assert not (tmp_path / "list-tags").exists()
    assert all(other.exists() for other in others)


def test_a_failed_run_leaves_no_old_manifest(tmp_path: Path) -> None:
    stage(tmp_path, only=["get_chunk"])
    (tmp_path / "requirements").rename(tmp_path / "elsewhere")
    (tmp_path / "requirements").write_text("not a folder")
    with pytest.raises(OSError, match="requirements"):
        stage(tmp_path, only=["get_chunk"])
    assert not (tmp_path / "manifest.json").exists()


def test_concurrent_runs_wait_for_each_other(
    tmp_path: Path, manifest: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = Barrier(2)

    def pack_together(*arguments: Any) -> Path:
        with suppress(BrokenBarrierError):
            meeting.wait(2)
        return pack(*arguments)

    monkeypatch.setattr(bundles, "pack", pack_together)
    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(stage, tmp_path, only=TWO_NAMES) for _ in range(2)]
    assert meeting.broken  # nobody came
    expected = {key: manifest[key] for key in ("get-chunk", "search-kb")}
    assert [run.result()["functions"] for run in runs] == [expected] * 2
    assert json.loads((tmp_path / "manifest.json").read_text())["functions"] == expected
    names = {f"bundles/{path.name}" for path in (tmp_path / "bundles").iterdir()}
    assert names == {entry["bundle"] for entry in expected.values()}


def test_a_bundle_requires_only_what_it_imports(target: Path) -> None:
    get_chunk, search_kb, gateway, ingest = (
        parse_requirement_names(target / key / "requirements.txt")
        for key in ("get-chunk", "search-kb", "gateway", "ingest")
    )
    assert {"functions-framework", "google-cloud-firestore", "tzdata"} <= get_chunk
    assert {"google-genai", "mcp", "onnxruntime", "numpy"} & get_chunk == set()
    assert {"google-genai", "pystemmer"} <= search_kb
    assert {"mcp", "onnxruntime", "scikit-learn"} & search_kb == set()
    assert {"mcp", "jinja2", "pyjwt"} <= gateway
    assert "google-cloud-storage" in ingest


def test_every_requirement_has_its_locked_version_and_hash(target: Path) -> None:
    pins = {line.lower().replace("_", "-") for line in CONSTRAINTS.read_text().splitlines()}
    for path in target.glob("*/requirements.txt"):
        entries = re.split(r"\n(?=\S)", path.read_text().strip())
        assert all("--hash=sha256:" in entry for entry in entries)
        versions = {re.split(r" ?[;\\]", entry)[0].replace("_", "-").lower() for entry in entries}
        plain_versions = {re.sub(r"\[.*]", "", version) for version in versions}
        assert plain_versions - pins == set()
        assert plain_versions <= versions  # pip 23 needs this line as well as the one with extras


def test_only_a_laptops_bundle_has_the_local_embedder(tmp_path: Path) -> None:
    stage(tmp_path, only=["search_kb"], laptop=True)
    assert (tmp_path / "search-kb" / "shared" / "ai" / "local_embedding.py").exists()
    assert "onnxruntime" in parse_requirement_names(tmp_path / "search-kb" / "requirements.txt")


def test_only_with_telemetry_a_bundle_has_the_exporter(target: Path, tmp_path: Path) -> None:
    stage(tmp_path, only=["gateway", "get_chunk"], telemetry=True)
    exporter = "opentelemetry-exporter-otlp-proto-http"
    for folder, expected in ((target, False), (tmp_path, True)):
        for key in ("gateway", "get-chunk"):
            requirements = parse_requirement_names(folder / key / "requirements.txt")
            assert (folder / key / "shared/core/span_export.py").exists() == expected
            assert ({exporter, "opentelemetry-sdk"} <= requirements) == expected
            assert (exporter in requirements) == expected


def test_no_bundle_contains_other_functions(target: Path) -> None:
    for key, prefix in [
        ("search-kb", "tools/knowledge/search_kb"),
        ("gateway", "gateway"),
        ("index", "jobs/index"),
    ]:
        folder = target / key / "functions"
        files = list(folder.rglob("*.py"))
        assert files
        assert all(str(path.relative_to(folder)).startswith(prefix) for path in files)
        assert not (target / key / "infra").exists()


def test_an_import_missing_in_pyproject_is_rejected() -> None:
    with pytest.raises(InvalidInput, match=r"pytest is imported, but pyproject.toml does not name"):
        find_requirements({"pytest"})


def test_an_import_that_is_not_installed_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="no_such_library is imported, but no installed"):
        find_requirements({"no_such_library"})


def test_a_namespace_hides_no_missing_package() -> None:
    with pytest.raises(InvalidInput, match=r"google.cloud.no_such_library is imported, but no"):
        find_requirements({"google.cloud", "google.cloud.no_such_library"})


def test_the_extra_is_staged_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {"google": None, "google.cloud": None, "google.cloud.storage": "google-cloud-storage"}
    monkeypatch.setattr(requirements, "_map_modules_to_distributions", lambda: modules)
    names = {"google.cloud.aiplatform_v1", "google.cloud.aiplatform_v1.JobServiceClient"}
    assert find_requirements(names) == {"google-cloud-aiplatform>=2.7"}


def test_the_standard_library_needs_no_requirement() -> None:
    assert find_requirements({"json", "collections.abc", "asyncio"}) == frozenset()


def test_a_requirement_missing_in_constraints_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"constraints.txt lacks colorama==.*make lock"):
        lock_requirements({"colorama"}, tmp_path)


def test_a_version_that_does_not_exist_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="uv cannot lock"):
        lock_requirements({"click>=999"}, tmp_path)


@pytest.mark.parametrize("function", functions(), ids=lambda function: function.key)
def test_every_import_of_functions_is_in_pyproject(function: Function) -> None:
    assert find_requirements(follow_imports(function.main).other_modules)
