"""Compares two folders, such as two exports of the same knowledge base."""

import filecmp
from pathlib import Path


def find_differing_files(one: Path, two: Path) -> list[str]:
    """Return the files of two folders that differ, or are in one of them only."""
    names = {str(file.relative_to(one)) for file in one.rglob("*") if file.is_file()}
    names |= {str(file.relative_to(two)) for file in two.rglob("*") if file.is_file()}
    _, mismatches, errors = filecmp.cmpfiles(one, two, names, shallow=False)
    return mismatches + errors
