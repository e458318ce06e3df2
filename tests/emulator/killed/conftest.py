"""The base that work is killed on."""

from pathlib import Path

import pytest

from tests.support.kills import Base


@pytest.fixture
def base(project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Base:
    """An empty database, which a case fills."""
    return Base(project=project, folder=tmp_path, patch=monkeypatch)
