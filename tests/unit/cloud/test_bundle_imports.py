"""The content of a bundle follows from the imports of its modules."""

from __future__ import annotations

from infra.build.discovery import ROOT
from infra.build.functions import functions
from infra.build.imports import DATA_FILES, FIRST_PARTY, import_closure


def main_module(name: str) -> str:
    """Return the text of a function's `main.py`."""
    [function] = [function for function in functions() if function.name == name]
    return function.main


def reached(program: str, *excluded_modules: str) -> set[str]:
    """Return the files of ours, as paths below the root."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in import_closure(program, excluded_modules).files
    }


def test_only_imported_files_are_included() -> None:
    of_tasks = reached(main_module("list_tasks"))
    assert "shared/tasks/repository.py" in of_tasks
    assert "shared/pipeline/index_repair.py" not in of_tasks
    assert "shared/pipeline/index_repair.py" in reached(main_module("repair"))


def test_imports_inside_functions_are_included() -> None:
    program = "def later():\n    def still_later():\n        import shared.screening.screen\n"
    assert {"shared/screening/screen.py", "shared/screening/scan.py"} <= reached(program)


def test_imports_for_type_checking_are_excluded() -> None:
    by_way_of_the_request = reached("import shared.runtime.invocation")
    assert "shared/core/caller.py" in by_way_of_the_request
    assert "shared/runtime/context.py" not in reached("import shared.runtime.idempotency")


def test_third_party_modules_have_full_names() -> None:
    other_modules = import_closure(
        "from google.cloud import firestore\nimport shared.core.dates"
    ).other_modules
    assert {"google.cloud", "google.cloud.firestore", "zoneinfo"} <= other_modules


def test_data_files_of_a_module_are_included() -> None:
    of_gateway = reached(main_module("gateway"))
    assert {
        "functions/gateway/catalog.json",
        "functions/gateway/oauth/page.css",
        "functions/gateway/oauth/consent.html",
    } <= of_gateway
    assert "shared/text/data/stop-words.german.txt" in reached(main_module("search_kb"))
    assert "shared/text/data/stop-words.german.txt" not in of_gateway


def test_every_module_that_reads_files_declares_them() -> None:
    paths = [path for package in FIRST_PARTY for path in (ROOT / package).rglob("*.py")]
    reading = {path for path in paths if "__file__" in path.read_text("utf-8")}
    declaring = {ROOT.joinpath(*module.split(".")).with_suffix(".py") for module in DATA_FILES}
    assert declaring == reading


def test_withheld_modules_are_not_followed() -> None:
    tool, local = main_module("search_kb"), "shared.ai.local_embedding"
    assert {"shared/ai/local_embedding.py", "shared/ai/_minilm.py"} <= reached(tool)
    assert {"shared/ai/local_embedding.py", "shared/ai/_minilm.py"} & reached(tool, local) == set()
