"""A bundle contains exactly the files that its main module imports.

A bundle is the archive from which a function is deployed. Its main module is the generated file
`main.py`. Imports are followed from there, through every module of Carrel's own packages.
"""

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
    assert "shared/core/caller.py" in find_imported_files("import shared.runtime.invocation")
    idempotency_files = find_imported_files("import shared.runtime.idempotency")
    assert "shared/runtime/context.py" not in idempotency_files


def test_third_party_modules_have_full_names() -> None:
    # `from google.cloud import firestore` may import a module or an attribute, so both names count.
    imports = follow_imports("from google.cloud import firestore\nimport shared.core.dates")
    assert {"google.cloud", "google.cloud.firestore", "zoneinfo"} <= imports.other_modules


def test_data_files_of_a_module_are_included() -> None:
    gateway_files = find_imported_files(find_main_source("gateway"))
    names = ("catalog.json", "oauth/page.css", "oauth/consent.html")
    assert {f"functions/gateway/{name}" for name in names} <= gateway_files
    stop_words = "shared/text/data/stop-words.german.txt"
    assert stop_words in find_imported_files(find_main_source("search_kb"))
    assert stop_words not in gateway_files


def test_imports_of_excluded_modules_are_not_followed() -> None:
    source = find_main_source("search_kb")
    model_files = {
        "shared/ai/local_embedding.py",
        "shared/ai/_minilm.py",
        "shared/ai/_universal_encoder.py",
    }
    assert model_files <= find_imported_files(source)
    assert model_files.isdisjoint(find_imported_files(source, "shared.ai.local_embedding"))
