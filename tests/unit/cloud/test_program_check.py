"""The type check of programs that tests keep as strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.build import program_check

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

STRINGS = '''
"import json"
"It is important: from shared import x"
f"import shared.core.dates; print({value!r})"
"""
    from shared.core import dates
    dates.no_such_name()
"""
'''
"""A module in which only the last two strings are programs that import this project."""


def test_programs_that_import_the_project_are_found(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(STRINGS)

    [formatted, indented] = program_check.find_programs(file)

    assert formatted == ("import shared.core.dates; print(NotImplemented)", 4)
    assert indented.text.splitlines()[-1] == "dates.no_such_name()"
    assert indented.line == 5


def test_a_wrong_name_is_reported_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.py"
    file.write_text(STRINGS)

    assert program_check.main([str(file)]) == 1

    [problem] = capsys.readouterr().out.splitlines()
    assert problem.startswith(f"{file}:7: error: Module has no attribute")
