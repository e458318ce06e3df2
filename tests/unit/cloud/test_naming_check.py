"""The lint for names rejects participles as variables, and a class name that is used twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.build import naming_check

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout, which the lint takes for the repository."""
    monkeypatch.setattr(naming_check, "ROOT", tmp_path)
    for name in ("functions", "shared", "infra"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "told = 1",
        "a, seen = 1, 2",
        "def f(wanted): ...",
        "for each in []: ...",
        "[each for each in []]",
        "lambda known: 1",
        "(found := 1)",
    ],
)
def test_a_participle_as_a_variable_is_reported(tree: Path, line: str) -> None:
    (tree / "shared" / "a.py").write_text(f"{line}\n")
    [problem] = naming_check.find_rejected_variables([tree / "shared"])
    assert problem.startswith("shared/a.py:1: ")


@pytest.mark.parametrize(
    "line", ["message = 1", "class A:\n    held: int", "self.known = 1", "print(found)"]
)
def test_nouns_fields_and_uses_of_names_are_accepted(tree: Path, line: str) -> None:
    (tree / "shared" / "a.py").write_text(f"{line}\n")
    assert list(naming_check.find_rejected_variables([tree / "shared"])) == []


def test_a_public_class_name_is_reported_once_for_all_places(tree: Path) -> None:
    (tree / "shared" / "a.py").write_text("class Page: ...\nclass _Part: ...\nclass In: ...\n")
    (tree / "infra" / "b.py").write_text("class Page: ...\nclass _Part: ...\nclass In: ...\n")
    (tree / "infra" / "c.py").write_text("class Other: ...\n")
    [problem] = naming_check.find_duplicate_classes([tree / "shared"])
    assert problem == "class Page is defined 2 times: shared/a.py:1 infra/b.py:1"
    assert list(naming_check.find_duplicate_classes([tree / "infra" / "c.py"])) == []
