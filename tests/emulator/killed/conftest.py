"""The base that work is killed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.kills import Base

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def base(project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Base:
    """An empty database, which a case fills."""
    return Base(project=project, folder=tmp_path, patch=monkeypatch)
