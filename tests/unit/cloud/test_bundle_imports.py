"""A bundle contains exactly the files that its main module imports.

A bundle is the archive from which a function is deployed. Its main module is the generated file
`main.py`. Imports are followed from there, through every module of Carrel's own packages.
"""

from __future__ import annotations

from infra.build.discovery import ROOT
from infra.build.functions import functions
from infra.build.imports import follow_imports


def find_main_source(name: str) -> str:
    """Return the source code of a function's main module."""
    [function] = [function for function in functions() if function.name == name]
    return function.main


def find_imported_files(source: str, *excluded_modules: str) -> set[str]:
    """Return Carrel's own files that `source` imports, as paths relative to the repository."""
    return {
        path.relative_to(ROOT).as_posix() for path in follow_imports(source, excluded_modules).files
    }


def test_only_imported_files_are_included() -> None:
    task_files = find_imported_files(find_main_source("list_tasks"))
    assert "shared/tasks/repository.py" in task_files
    assert "shared/pipeline/index_repair.py" not in task_files
    assert "shared/pipeline/index_repair.py" in find_imported_files(find_main_source("repair"))


def test_imports_inside_functions_are_included() -> None:
    source = "def outer():\n    def inner():\n        import shared.screening.screen\n"
    assert {"shared/screening/screen.py", "shared/screening/scan.py"} <= find_imported_files(source)


def test_imports_for_type_checking_are_excluded() -> None:
    # `invocation` imports `caller` only for type checking, but `messages`, which it imports at run
    # time, needs it. Nothing that `idempotency` needs imports `context` at run time.
    invocation_files = find_imported_files("import shared.runtime.invocation")
    assert "shared/core/caller.py" in invocation_files
    assert "shared/runtime/context.py" not in find_imported_files(
        "import shared.runtime.idempotency"
    )


def test_third_party_modules_have_full_names() -> None:
    source = "from google.cloud import firestore\nimport shared.core.dates"
    # `from google.cloud import firestore` may import a module or an attribute, so both names count.
    assert {"google.cloud", "google.cloud.firestore", "zoneinfo"} <= follow_imports(
        source
    ).other_modules


def test_data_files_of_a_module_are_included() -> None:
    gateway_files = find_imported_files(find_main_source("gateway"))

    assert {
        "functions/gateway/catalog.json",
        "functions/gateway/oauth/page.css",
        "functions/gateway/oauth/consent.html",
    } <= gateway_files
    assert "shared/text/data/stop-words.german.txt" in find_imported_files(
        find_main_source("search_kb")
    )
    assert "shared/text/data/stop-words.german.txt" not in gateway_files


def test_imports_of_excluded_modules_are_not_followed() -> None:
    tool_source = find_main_source("search_kb")
    local_embedding_files = {"shared/ai/local_embedding.py", "shared/ai/_minilm.py"}
    assert local_embedding_files <= find_imported_files(tool_source)
    assert local_embedding_files.isdisjoint(
        find_imported_files(tool_source, "shared.ai.local_embedding")
    )
