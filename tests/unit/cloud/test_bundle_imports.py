"""What a bundle holds follows from what its modules import."""

from __future__ import annotations

from infra.build.discovery import ROOT
from infra.build.functions import functions
from infra.build.imports import DATA_FILES, FIRST_PARTY, import_closure


def main_of(name: str) -> str:
    """The text of a function's `main.py`."""
    [function] = [function for function in functions() if function.name == name]
    return function.main


def reached(program: str, *withheld: str) -> set[str]:
    """The files of ours, as paths below the root."""
    return {path.relative_to(ROOT).as_posix() for path in import_closure(program, withheld).files}


def test_what_is_imported_comes_along_and_nothing_else() -> None:
    of_tasks = reached(main_of("list_tasks"))
    assert "shared/tasks/repository.py" in of_tasks
    assert "shared/pipeline/index_repair.py" not in of_tasks
    assert "shared/pipeline/index_repair.py" in reached(main_of("repair"))


def test_what_is_imported_inside_a_function_comes_along() -> None:
    program = "def later():\n    def still_later():\n        import shared.screening.screen\n"
    assert {"shared/screening/screen.py", "shared/screening/scan.py"} <= reached(program)


def test_what_is_imported_for_types_alone_stays_away() -> None:
    by_way_of_the_request = reached("import shared.runtime.invocation")
    assert "shared/core/caller.py" in by_way_of_the_request
    assert "shared/runtime/context.py" not in reached("import shared.runtime.idempotency")


def test_modules_of_others_are_named_in_full() -> None:
    others = import_closure("from google.cloud import firestore\nimport shared.core.dates").others
    assert {"google.cloud", "google.cloud.firestore", "zoneinfo"} <= others


def test_files_that_a_module_reads_come_along() -> None:
    of_gateway = reached(main_of("gateway"))
    assert {
        "functions/gateway/catalog.json",
        "functions/gateway/oauth/page.css",
        "functions/gateway/oauth/consent.html",
    } <= of_gateway
    assert "shared/text/data/stop-words.german.txt" in reached(main_of("search_kb"))
    assert "shared/text/data/stop-words.german.txt" not in of_gateway


def test_every_module_that_reads_files_declares_them() -> None:
    paths = [path for package in FIRST_PARTY for path in (ROOT / package).rglob("*.py")]
    reading = {path for path in paths if "__file__" in path.read_text("utf-8")}
    declaring = {ROOT.joinpath(*module.split(".")).with_suffix(".py") for module in DATA_FILES}
    assert declaring == reading


def test_what_is_withheld_is_not_followed() -> None:
    tool, local = main_of("search_kb"), "shared.ai.local_embedding"
    assert {"shared/ai/local_embedding.py", "shared/ai/_minilm.py"} <= reached(tool)
    assert {"shared/ai/local_embedding.py", "shared/ai/_minilm.py"} & reached(tool, local) == set()
