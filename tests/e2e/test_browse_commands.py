"""`carrel show`, `search`, `golden run` and `sources` print what they find or what is wrong."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result

from infra.cli.main import main
from infra.cloud.deployment import Deployment
from infra.file_lock import hold_lock
from infra.local.running_gateways import get_log_file
from shared.core.errors import Unavailable
from tests.support.gateway_process import FilledProject, RunningGateway
from tests.support.knowledge import BAKING, SAILING
from tests.support.traces import make_sample_trace


def run_command(gateway: RunningGateway, *arguments: str) -> Result:
    """Run a command against a gateway."""
    return CliRunner().invoke(main, [*arguments, "--url", gateway.endpoint])


def run_and_read_output(gateway: RunningGateway, *arguments: str) -> str:
    """Run a command that succeeds; return what it prints."""
    result = run_command(gateway, *arguments)
    assert result.exit_code == 0
    assert result.stderr == ""
    return result.stdout


def test_a_passage_and_a_source_are_shown(
    inline: RunningGateway, filled_project: FilledProject
) -> None:
    text = run_and_read_output(inline, "show", filled_project.chunks[0].chunk_id)
    assert text.startswith("Bread at Home by Ida Loaf (kindle, 1/3, ")
    assert BAKING.sections[0].text in text
    assert ", tags: food, dough\n" in text
    assert "\nhttps://example.com/bread#11\n" in text
    assert "Related:\n" in text
    second = run_and_read_output(inline, "show", filled_project.chunks[1].chunk_id)
    assert second.splitlines()[0].endswith(", Starters, page 12)")

    text = run_and_read_output(inline, "show", "baking")
    assert text.startswith("Bread at Home · Ida Loaf (books, ")
    for number, section in enumerate(BAKING.sections):
        passage = f"[{number + 1}/3] {filled_project.chunks[number].chunk_id}\n{section.text}"
        assert passage in text


def test_a_trace_is_shown(inline: RunningGateway) -> None:
    result = run_command(inline, "call", "contribute_trace", json.dumps(make_sample_trace(7)))
    assert result.exit_code == 0, result.stderr
    text = run_and_read_output(inline, "show", json.loads(result.stdout)["trace_id"])
    assert text.startswith(f"{make_sample_trace(7)['title']}\nStatus: pending | ")
    assert f"Solution:\n{make_sample_trace(7)['solution_text']}" in text


def test_an_unknown_id_is_an_error_that_says_what_to_try(inline: RunningGateway) -> None:
    unknown = run_command(inline, "show", "nobody-000000000000")
    invalid = run_command(inline, "show", "a/b")
    assert [(result.exit_code, result.stdout) for result in (unknown, invalid)] == [(1, "")] * 2
    assert "no passage, source, cluster or trace nobody-000000000000" in unknown.stderr
    assert "carrel search WORDS" in unknown.stderr
    assert "carrel search WORDS" not in invalid.stderr
    assert "Traceback" not in invalid.stderr


def test_a_search_prints_hits_with_their_ids(
    inline: RunningGateway, filled_project: FilledProject
) -> None:
    text = run_and_read_output(inline, "search", "sourdough", "starter", "--limit", "1")
    assert "1. Bread at Home by Ida Loaf (" in text
    assert f"ID: {filled_project.chunks[1].chunk_id}, tags: food\n" in text
    assert "2. " not in text


def test_a_search_prints_where_the_next_page_begins(inline: RunningGateway) -> None:
    filters = ("--tag", "food", "--limit", "1")
    text = run_and_read_output(inline, "search", *filters)
    cursor = text.split("cursor ")[1].strip()
    assert "2. " in run_and_read_output(inline, "search", *filters, "--cursor", cursor)


def test_a_search_says_that_nothing_matches_well(inline: RunningGateway) -> None:
    text = run_and_read_output(inline, "search", "quantum chromodynamics of black holes")
    assert "Nothing here matches strongly." in text


def test_golden_queries_have_the_places_of_their_passages(
    inline: RunningGateway, filled_project: FilledProject, tmp_path: Path
) -> None:
    chunk_id = filled_project.chunks[1].chunk_id
    pairs = [("sourdough starter", chunk_id), ("sourdough", "none")]
    file = tmp_path / "questions.jsonl"
    file.write_text("\n".join(json.dumps({"query": a, "chunk_id": b}) for a, b in pairs))
    text = run_and_read_output(inline, "golden", "run", "--file", str(file))
    assert text.splitlines() == [
        "PLACE  QUESTION",
        "1      sourdough starter",
        "-      sourdough",
        "Among the first ten: 1 of 2 (MRR 0.50).",
    ]

    file.write_text('{"query": "sourdough"}')
    result = run_command(inline, "golden", "run", "--file", str(file))
    assert result.exit_code == 1
    assert "fields query and chunk_id" in result.stderr


def test_filters_list_passages_without_a_query(inline: RunningGateway) -> None:
    filters = {"tag": "dough", "author": "Ida Loaf", "source": "baking", "category": "books"}
    for option, value in filters.items():
        text = run_and_read_output(inline, "search", f"--{option}", value)
        assert BAKING.title in text
        assert SAILING.title not in text

    page = ("search", "--source", "baking", "--limit", "2")
    cursor = run_and_read_output(inline, *page).split("cursor ")[1].strip()
    assert "3. " in run_and_read_output(inline, *page, "--cursor", cursor)


def test_a_search_needs_words_or_a_filter() -> None:
    result = CliRunner().invoke(main, ["search"])
    assert result.exit_code == 2
    assert "Give words to search for" in result.stderr


def test_sources_are_listed_in_pages(inline: RunningGateway) -> None:
    command = ("sources", "--limit", "2", "--order", "title")
    first_page = run_command(inline, *command)
    header, *rows = first_page.stdout.splitlines()
    assert header.split() == ["ID", "TITLE", "AUTHOR", "CATEGORY", "PASSAGES", "CHANGED"]
    assert rows[0].startswith("baking")
    assert len(rows) == 2

    cursor = first_page.stderr.split("--cursor ")[1].strip()
    second_page = run_command(inline, *command, "--cursor", cursor)
    assert "sailing" in second_page.stdout
    assert "baking" not in second_page.stdout
    assert second_page.stderr == ""
    assert "baking" in run_and_read_output(inline, "sources", "--limit", "50")
    assert run_command(inline, "sources", "--limit", "51").exit_code == 2
    assert "nobody" in run_and_read_output(inline, "sources", "--author", "nobody")


def record_urls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the addresses to which commands connect. The connections fail."""
    urls: list[str] = []

    def connect(url: str, _: object) -> NoReturn:
        urls.append(url)
        raise Unavailable("recorded")

    monkeypatch.setattr("infra.local.client.connect", connect)
    return urls


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--cloud", "show", "baking"], "https://kb.example/mcp"),
        (["show", "baking", "--url", "http://a"], "http://a"),
    ],
)
def test_the_gateway_is_the_deployed_or_the_named_one(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --cloud, it is the gateway of the deployment, whose file says its address."""
    deployment = Deployment(project="my-carrel-123", public_url="https://kb.example")
    monkeypatch.setattr("infra.cloud.deployment.load_deployment", lambda _=None: deployment)
    monkeypatch.setattr("infra.cloud.environment.load_deployment", lambda _: deployment)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-carrel-123")
    urls = record_urls(monkeypatch)
    CliRunner().invoke(main, arguments)
    assert urls == [expected]


@pytest.mark.parametrize(
    ("ports", "expected"), [([9090], 9090), ([9090, 9091], 9090), ([8079, 8080, 9090], 8080)]
)
@pytest.mark.parametrize("command", [["show", "a"], ["search", "a"], ["sources"], ["call", "a"]])
def test_the_gateway_of_the_state_folder_is_used(
    command: list[str],
    ports: list[int],
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of several, the one on the default port is used, or the one on the lowest."""
    monkeypatch.setattr("infra.local.local_database.STATE", tmp_path)
    urls = record_urls(monkeypatch)
    get_log_file(7000).touch()  # of a gateway that has ended
    with ExitStack() as stack:
        for port in ports:
            stack.enter_context(hold_lock(get_log_file(port)))
        CliRunner().invoke(main, command)
    assert urls == [f"http://localhost:{expected}/mcp"]


def test_without_a_running_gateway_the_command_says_how_to_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.local.local_database.STATE", tmp_path)
    result = CliRunner().invoke(main, ["sources"])
    assert result.exit_code == 1
    assert f"No Carrel runs on the data in {tmp_path}. Start it with `make run`" in result.stderr
