"""What a bundle holds follows from what its modules import."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.build.discovery import ROOT
from infra.build.function_settings import settings_read
from infra.build.functions import functions
from infra.build.imports import reach

if TYPE_CHECKING:
    from infra.build.functions import Function

every_function = pytest.mark.parametrize("function", functions(), ids=lambda each: each.key)


def main_of(name: str) -> str:
    """The text of a function's `main.py`."""
    [function] = [function for function in functions() if function.name == name]
    return function.main


def reached(program: str, *withheld: str) -> set[str]:
    """The files of ours, as paths below the root."""
    return {path.relative_to(ROOT).as_posix() for path in reach(program, withheld).files}


def test_what_is_imported_inside_a_function_comes_along_where_its_name_is_used() -> None:
    of_tasks = reached(main_of("list_tasks"))
    assert "shared/tasks/repository.py" in of_tasks
    assert "shared/pipeline/index_repair.py" not in of_tasks
    assert "shared/pipeline/index_repair.py" in reached(main_of("repair"))


def test_only_jobs_come_with_what_runs_jobs() -> None:
    assert "shared/runtime/job.py" not in reached(main_of("get_chunk"))
    assert "shared/runtime/job.py" in reached(main_of("index"))


def test_what_is_imported_for_types_alone_stays_away() -> None:
    by_way_of_the_request = reached("import shared.runtime.invocation")
    assert "shared/core/caller.py" in by_way_of_the_request
    assert "shared/runtime/context.py" not in reached("import shared.runtime.idempotency")


def test_files_that_a_module_reads_come_along() -> None:
    of_gateway = reached(main_of("gateway"))
    assert {
        "functions/gateway/catalog.json",
        "functions/gateway/oauth/page.css",
        "functions/gateway/oauth/consent.html",
    } <= of_gateway
    assert "shared/text/data/stop-words.german.txt" in reached(main_of("search_kb"))
    assert "shared/text/data/stop-words.german.txt" not in of_gateway


def test_what_is_withheld_is_not_followed() -> None:
    tool, local = main_of("search_kb"), "shared.ai.local_embedding"
    assert {"shared/ai/local_embedding.py", "shared/ai/_minilm.py"} <= reached(tool)
    assert {"shared/ai/local_embedding.py", "shared/ai/_minilm.py"} & reached(tool, local) == set()


def settings_of(name: str) -> set[str]:
    [function] = [function for function in functions() if function.name == name]
    return settings_read(function, reach(function.main))


def test_a_function_is_given_the_settings_that_it_reads() -> None:
    assert {
        "ALLOWED_EMAILS",
        "EMBEDDING_PROVIDER",
        "OPENAI_KEY_OF_CALLER",
        "PUBLIC_URL",
        "TRUSTED_PROXIES",
    } <= settings_of("gateway")
    of_tasks = settings_of("list_tasks")
    assert {"TIME_ZONE", "FIRESTORE_DATABASE"} <= of_tasks
    assert {"ALLOWED_EMAILS", "ACCESS_DATABASE", "INGEST_BUCKET"} & of_tasks == set()


def test_who_does_not_embed_is_not_touched_by_another_model() -> None:
    assert "VERTEX_MODEL" in settings_of("search_kb")
    assert "VERTEX_MODEL" not in settings_of("get_chunk")
    assert {"GENERATION_MODEL", "VERTEX_BASE_URL"} <= settings_of("cards")
    assert {"GENERATION_MODEL", "READWISE_URL"} & settings_of("search_kb") == set()
    assert "READWISE_URL" in settings_of("ingest")


@every_function
def test_no_secret_is_given_in_plain_sight(function: Function) -> None:
    secrets = {"ACCESS_SECRETS", "OPENAI_API_KEY", "READWISE_TOKEN", "GOOGLE_CLIENT_SECRET"}
    assert settings_of(function.name) & {*secrets, "BILLING_TOKEN"} == set()
