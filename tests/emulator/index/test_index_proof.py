"""The index-proof plugin, run on small projects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.build.index_proof import main

ROOT = Path(__file__).parents[3]
QUERY = "client.collection('people').where('name', '==', 'x').order_by('age')"
INDEX = """{"indexes": [{"collectionGroup": "people", "queryScope": "COLLECTION", "fields": [
    {"fieldPath": "name", "order": "ASCENDING"}, {"fieldPath": "age", "order": "ASCENDING"}]}]}"""
CHECK = """
from pathlib import Path
from infra.build.index_proof import main
raise SystemExit(main(Path()))
"""
TEST_THAT_QUERIES = f"""
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import Client

def test_query():
    client = Client(project="x", credentials=AnonymousCredentials())
    {QUERY}._prep_stream()

def test_nothing():
    pass
"""


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A project with one query, which needs an index."""
    for folder in ("tests", "shared/people"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\naddopts = --import-mode=importlib -p no:cacheprovider\n"
    )
    (tmp_path / "tests/test_sample.py").write_text(TEST_THAT_QUERIES)
    (tmp_path / "firestore.indexes.json").write_text("{}")
    return tmp_path


def run(project: Path, *arguments: str) -> tuple[int, str]:
    """Run the project's suite with the plugin: the exit status and what was printed."""
    return run_python(project, "-m", "pytest", "-p", "tests.support.index_proof", *arguments)


def run_python(project: Path, *arguments: str) -> tuple[int, str]:
    """Run Python in the project: the exit status and what was printed."""
    environment = os.environ | {"PYTHONPATH": f"{project}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_missing_index_fails_a_run_that_says_what_to_add(sample: Path) -> None:
    status, output = run(sample)
    assert status == 1
    assert "missing: people (COLLECTION): name ASCENDING, age ASCENDING" in output
    assert '"fieldPath": "age"' in output


@pytest.mark.slow
def test_a_run_passes_when_the_file_has_the_index(sample: Path) -> None:
    (sample / "firestore.indexes.json").write_text(INDEX)
    assert run(sample, "tests")[0] == 0


@pytest.mark.slow
def test_the_workers_of_xdist_record_and_their_controller_checks(sample: Path) -> None:
    status, output = run(sample, "-n", "1")
    assert status == 1
    assert output.count("missing: people") == 1


@pytest.mark.slow
@pytest.mark.parametrize("selection", [["-k", "query"], ["tests/test_sample.py::test_query"]])
def test_a_run_of_some_tests_fails_too(sample: Path, selection: list[str]) -> None:
    status, output = run(sample, *selection)
    assert (status, output.count("missing: people")) == (1, 1)


@pytest.mark.slow
def test_shapes_that_a_repository_lists_count_as_run(sample: Path) -> None:
    (sample / "tests/test_sample.py").write_text("def test_nothing():\n    pass\n")
    (sample / "firestore.indexes.json").write_text(INDEX)
    (sample / "shared/people/repository.py").write_text(
        f"def query_shapes(client):\n    yield {QUERY}\n"
    )
    assert run(sample)[0] == 0


@pytest.mark.slow
def test_a_query_of_credentials_is_checked_by_their_indexes(sample: Path) -> None:
    of_access = TEST_THAT_QUERIES.replace('project="x"', 'project="x", database="access"')
    (sample / "tests/test_sample.py").write_text(of_access)
    (sample / "firestore.indexes.json").write_text("{}")
    status, output = run(sample)
    assert status == 1
    assert "infra/build/access.indexes.json is wrong" in output
    (sample / "infra" / "build").mkdir(parents=True)
    (sample / "infra" / "build" / "access.indexes.json").write_text(INDEX)
    assert run(sample)[0] == 0


@pytest.mark.slow
def test_an_index_that_nothing_uses_fails_a_run(sample: Path) -> None:
    (sample / "tests/test_sample.py").write_text("def test_nothing():\n    pass\n")
    (sample / "firestore.indexes.json").write_text(INDEX)
    status, output = run(sample)
    assert status == 1
    assert "unused: people (COLLECTION): name ASCENDING, age ASCENDING" in output


def test_every_query_that_is_listed_has_its_index() -> None:
    assert main() == 0


def test_the_check_without_tests_prints_what_to_paste(sample: Path) -> None:
    (sample / "shared/people/repository.py").write_text(
        f"def query_shapes(client):\n    yield {QUERY}\n"
    )
    status, output = run_python(sample, "-c", CHECK)
    assert status == 1
    assert "missing: people (COLLECTION): name ASCENDING, age ASCENDING" in output
    assert '"fieldPath": "age"' in output
