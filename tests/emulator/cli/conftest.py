"""Fixtures of the tests of commands: an empty database, and a model that needs no time."""

from functools import partial
from pathlib import Path

import pytest

from infra.local import jobs
from shared.runtime.context import App
from tests.support.fakes.embedder import WordEmbedder


@pytest.fixture
def embedder() -> WordEmbedder:
    """The embedder of the jobs that a command runs, which a test can make fail."""
    return WordEmbedder()


@pytest.fixture(autouse=True)
def environment(
    monkeypatch: pytest.MonkeyPatch, project: str, embedder: WordEmbedder, tmp_path: Path
) -> None:
    """Let commands use the test's database, embedder and log."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", project)
    monkeypatch.setattr(jobs, "App", partial(App, embedder=embedder))
    monkeypatch.setattr(jobs, "COMMAND_LOG", tmp_path.with_suffix(".log"))
