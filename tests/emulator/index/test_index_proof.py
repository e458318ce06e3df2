"""The index proof fails a test run in which a query lacks its index in Firestore.

A plugin of pytest records the queries that tests send, since the emulator reports no missing index.
These tests run it on a small project.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.build.index_proof import main

ROOT = Path(__file__).parents[3]
QUERY = "client.collection('people').where('name', '==', 'x').order_by('age')"
"""A query that needs a composite index."""
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
def small_project(tmp_path: Path) -> Path:
    """A project whose only test sends `QUERY`, and which has no index."""
    for folder in ("tests", "shared/people", "infra/build"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests\naddopts = --import-mode=importlib -p no:cacheprovider\n"
    )
    (tmp_path / "tests/test_sample.py").write_text(TEST_THAT_QUERIES)
    (tmp_path / "firestore.indexes.json").write_text("{}")
    return tmp_path


def run_tests(project: Path, *arguments: str) -> tuple[int, str]:
    """Run the project's tests with the plugin; return the exit status and the output."""
    return run_python(project, "-m", "pytest", "-p", "tests.support.index_proof", *arguments)


def run_python(project: Path, *arguments: str) -> tuple[int, str]:
    """Run Python in the project; return the exit status and the output."""
    environment = os.environ | {"PYTHONPATH": f"{project}{os.pathsep}{ROOT}"}
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, process.stdout + process.stderr


def test_a_run_with_a_missing_index_fails_and_prints_the_index(small_project: Path) -> None:
    status, output = run_tests(small_project)
    assert status == 1
    assert "missing: people (COLLECTION): name ASCENDING, age ASCENDING" in output
    assert '"fieldPath": "age"' in output


@pytest.mark.slow
def test_a_run_passes_when_the_file_has_the_index(small_project: Path) -> None:
    (small_project / "firestore.indexes.json").write_text(INDEX)
    assert run_tests(small_project, "tests")[0] == 0


@pytest.mark.slow
def test_a_parallel_run_reports_a_missing_index_once(small_project: Path) -> None:
    status, output = run_tests(small_project, "-n", "1")
    assert status == 1
    assert output.count("missing: people") == 1


@pytest.mark.slow
@pytest.mark.parametrize("selection", [["-k", "query"], ["tests/test_sample.py::test_query"]])
def test_a_run_of_some_tests_fails_for_a_missing_index(
    small_project: Path, selection: list[str]
) -> None:
    status, output = run_tests(small_project, *selection)
    assert status == 1
    assert output.count("missing: people") == 1


@pytest.mark.slow
def test_queries_that_a_repository_lists_use_their_indexes(small_project: Path) -> None:
    (small_project / "tests/test_sample.py").write_text("def test_nothing():\n    pass\n")
    (small_project / "firestore.indexes.json").write_text(INDEX)
    (small_project / "shared/people/repository.py").write_text(
        f"def query_shapes(client):\n    yield {QUERY}\n"
    )
    assert run_tests(small_project)[0] == 0


@pytest.mark.slow
def test_a_query_of_the_access_database_needs_its_own_index(small_project: Path) -> None:
    test_of_access = TEST_THAT_QUERIES.replace('project="x"', 'project="x", database="access"')
    (small_project / "tests/test_sample.py").write_text(test_of_access)
    (small_project / "firestore.indexes.json").write_text("{}")
    status, output = run_tests(small_project)
    assert status == 1
    assert "infra/build/access.indexes.json is wrong" in output

    (small_project / "infra" / "build" / "access.indexes.json").write_text(INDEX)
    assert run_tests(small_project)[0] == 0


@pytest.mark.slow
def test_a_run_with_an_unused_index_fails(small_project: Path) -> None:
    (small_project / "tests/test_sample.py").write_text("def test_nothing():\n    pass\n")
    (small_project / "firestore.indexes.json").write_text(INDEX)
    status, output = run_tests(small_project)
    assert status == 1
    assert "unused: people (COLLECTION): name ASCENDING, age ASCENDING" in output


def test_every_query_that_carrel_lists_has_its_index() -> None:
    assert main() == 0


def test_the_check_without_tests_prints_the_missing_index(small_project: Path) -> None:
    (small_project / "shared/people/repository.py").write_text(
        f"def query_shapes(client):\n    yield {QUERY}\n"
    )
    status, output = run_python(small_project, "-c", CHECK)
    assert status == 1
    assert "missing: people (COLLECTION): name ASCENDING, age ASCENDING" in output
    assert '"fieldPath": "age"' in output
