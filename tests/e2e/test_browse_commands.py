"""`carrel show`, `search` and `sources` print passages and sources, or say what is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from infra.cli.formatting import make_printable
from infra.cli.main import main
from infra.cli.tools import LOCAL_URL
from infra.cloud.deployment import Deployment
from tests.support.knowledge import BAKING, SAILING
from tests.support.traces import make_sample_trace

if TYPE_CHECKING:
    from click.testing import Result

    from tests.support.gateway_process import FilledProject, RunningGateway


def run_command(gateway: RunningGateway, *arguments: str) -> Result:
    """Run a command against a gateway."""
    return CliRunner().invoke(main, [*arguments, "--url", gateway.endpoint])


def run_and_read_output(gateway: RunningGateway, *arguments: str) -> str:
    """Run a command that succeeds; return what it prints."""
    result = run_command(gateway, *arguments)
    assert result.exit_code == 0
    assert result.stderr == ""
    return result.stdout


def test_a_passage_is_shown_with_its_source(
    inline: RunningGateway, filled_project: FilledProject
) -> None:
    text = run_and_read_output(inline, "show", filled_project.chunks[0].chunk_id)
    assert text.startswith("Bread at Home · Ida Loaf (1/3, ")
    assert BAKING.sections[0].text in text
    assert "source: baking\ntags: food, dough\n" in text
    assert "address: https://example.com/bread#11" in text
    assert "Related passages:\n" in text


def test_a_source_is_shown_with_all_its_passages(
    inline: RunningGateway, filled_project: FilledProject
) -> None:
    text = run_and_read_output(inline, "show", "baking")
    assert text.startswith("Bread at Home · Ida Loaf (books, ")
    for number, section in enumerate(BAKING.sections):
        passage = f"[{number + 1}/3] {filled_project.chunks[number].chunk_id}\n{section.text}"
        assert passage in text


def test_a_trace_is_shown(inline: RunningGateway) -> None:
    result = run_command(inline, "call", "contribute_trace", json.dumps(make_sample_trace(7)))
    assert result.exit_code == 0, result.stderr
    text = run_and_read_output(inline, "show", json.loads(result.stdout)["trace_id"])
    assert text.startswith(f"{make_sample_trace(7)['title']} (pending, ")
    assert f"Solution:\n{make_sample_trace(7)['solution_text']}" in text


def test_an_unknown_id_is_an_error_that_says_what_to_try(inline: RunningGateway) -> None:
    result = run_command(inline, "show", "nobody-000000000000")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "no passage, source, cluster or trace nobody-000000000000" in result.stderr
    assert "carrel search WORDS" in result.stderr


def test_an_invalid_id_is_rejected(inline: RunningGateway) -> None:
    result = run_command(inline, "show", "a/b")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert "carrel search WORDS" not in result.stderr


def test_a_search_prints_hits_with_their_ids(
    inline: RunningGateway, filled_project: FilledProject
) -> None:
    text = run_and_read_output(inline, "search", "sourdough", "starter", "--limit", "1")
    assert text.startswith("1. Bread at Home · Ida Loaf (2/3, ")
    assert f"id: {filled_project.chunks[1].chunk_id}\n" in text
    assert "2. " not in text


def test_the_chapter_and_page_of_a_passage_are_printed(
    inline: RunningGateway, filled_project: FilledProject
) -> None:
    hits = run_and_read_output(inline, "search", "sourdough", "starter", "--limit", "1")
    passage = run_and_read_output(inline, "show", filled_project.chunks[1].chunk_id)
    for text in (hits, passage):
        assert text.splitlines()[0].endswith(", Starters, page 12)")


def test_a_search_says_that_nothing_matches_well(inline: RunningGateway) -> None:
    text = run_and_read_output(inline, "search", "quantum chromodynamics of black holes")
    assert text.startswith("Nothing here matches strongly.")


def test_filters_list_passages_without_a_query(inline: RunningGateway) -> None:
    filters = {"tag": "dough", "author": "Ida Loaf", "source": "baking", "category": "books"}
    for option, value in filters.items():
        text = run_and_read_output(inline, "search", f"--{option}", value)
        assert BAKING.title in text
        assert SAILING.title not in text


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


def test_a_page_has_at_most_50_sources(inline: RunningGateway) -> None:
    assert "baking" in run_and_read_output(inline, "sources", "--limit", "50")
    assert run_command(inline, "sources", "--limit", "51").exit_code == 2


def test_an_empty_list_says_why(inline: RunningGateway) -> None:
    assert "nobody" in run_and_read_output(inline, "sources", "--author", "nobody")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["show", "baking"], LOCAL_URL),
        (["--cloud", "show", "baking"], "https://kb.example/mcp"),
        (["show", "baking", "--url", "http://a"], "http://a"),
    ],
)
def test_the_gateway_is_the_local_or_the_deployed_one(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --cloud, it is the gateway of the deployment, whose file says its address."""
    deployment = Deployment(project="my-carrel-123", public_url="https://kb.example")
    monkeypatch.setattr("infra.cloud.deployment.load_deployment", lambda _=None: deployment)
    monkeypatch.setattr("infra.cloud.environment.load_deployment", lambda _: deployment)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-carrel-123")
    urls: list[str] = []

    def record_url(url: str, _: object) -> str:
        urls.append(url)
        return "text"

    monkeypatch.setattr("infra.cli.tools._run", record_url)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert urls == [expected]


def test_control_characters_do_not_reach_the_terminal() -> None:
    """Strangers may have written a trace that is printed."""
    assert make_printable("a\x1b[2Jb\x9b\u202ec\n\td") == "a[2Jbc\n\td"
