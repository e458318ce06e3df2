"""`carrel golden` and `carrel why`: measure search with questions whose answers are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from infra.cli.database import run_with_context, run_with_database
from infra.cli.formatting import format_table
from infra.cli.tools import print_text, run_with_gateway, url_option
from infra.local import local_database
from shared.core.caller import Caller
from shared.core.errors import NotFound
from shared.core.installation import carrel
from shared.index.on_request import KEEP_OUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.tools.knowledge.search_kb.filters import Filters
    from infra.local.client import CallTool
    from shared.firestore.database import Database
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context
    from shared.search.query import Candidate

    GoldenQuery = tuple[str, str]
    """A question, and the id of the passage that answers it."""

_file_option: Final = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=lambda: local_database.STATE / "golden.jsonl",
    show_default="golden.jsonl in the state folder",
    help="The file with golden queries: JSON Lines with `query` and `chunk_id`.",
)

_HEADER: Final = ("PLACE", "ANSWERS", "MEANING", "WORDS", "MATCHING WORDS", "PASSAGE")
_MAX_ABOVE: Final = 9
"""At most this many of the passages above are listed, the best ones."""
_PASSAGE_WIDTH: Final = 60
_MAX_QUESTION: Final = 2_000
"""The maximum length of a query of `search_kb`."""


def _check_question(_ctx: click.Context, _parameter: click.Parameter, question: str) -> str:
    """Return a question that `search_kb` accepts."""
    stripped = question.strip()
    if not 0 < len(stripped) <= _MAX_QUESTION:
        raise click.BadParameter(f"A question has 1 to {_MAX_QUESTION:,} characters.")
    return stripped


_question_argument: Final = click.argument("question", callback=_check_question)


@click.group()
def golden() -> None:
    """Measure search with your own questions, whose answers you know."""


@golden.command()
@_question_argument
@click.argument("chunk_id")
@_file_option
def add(question: str, chunk_id: str, file: Path) -> None:
    """Remember that the passage CHUNK_ID answers QUESTION."""
    run_with_database(lambda database: _load_chunk(chunk_id, database))
    if (question, chunk_id) not in _read(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as lines:
            line = json.dumps({"query": question, "chunk_id": chunk_id}, ensure_ascii=False)
            lines.write(f"{line}\n")
    click.echo(f"{file} has this golden query. Next: {carrel('golden run')}")


@golden.command()
@_file_option
@url_option
def run(file: Path, url: str | None) -> None:
    """Search for each golden query, and print at which place its passage is."""
    pairs = _read(file)
    if not pairs:
        add_command = carrel("golden add QUESTION CHUNK_ID")
        raise click.ClickException(f"There are no golden queries. Add one: {add_command}")
    places = run_with_gateway(url, lambda call_tool: find_places(pairs, call_tool))
    rows = [(str(place or "-"), query) for place, (query, _) in zip(places, pairs, strict=True)]
    print_text(format_table(("PLACE", "QUESTION"), rows))
    found_count = len(places) - places.count(0)
    mean = sum(1 / place for place in places if place) / len(places)
    click.echo(f"Among the first ten: {found_count} of {len(places)} (MRR {mean:.2f}).")


@click.command()
@_question_argument
@click.argument("chunk_id")
def why(question: str, chunk_id: str) -> None:
    """Explain at which place QUESTION finds the passage CHUNK_ID, and what is above it.

    MEANING is the cosine similarity of question and passage, WORDS the BM25 score of the matching
    words. Both decide the order, and which passages are likely to answer: these come first.
    """
    caller = Caller.of("owner")
    print_text(run_with_context(lambda ctx: _explain(question, chunk_id, ctx), caller))


async def _load_chunk(chunk_id: str, database: Database) -> Chunk:
    from shared.knowledge.chunk_repository import Chunks

    embedded_chunk = await Chunks(database).get(chunk_id)
    if embedded_chunk is None:
        raise NotFound(f"There is no passage {chunk_id}. Find it: {carrel('search WORDS')}")
    return embedded_chunk.chunk


def _read(file: Path) -> list[GoldenQuery]:
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return [_parse(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _parse(number: int, line: str) -> GoldenQuery:
    try:
        data = json.loads(line)
        return data["query"], data["chunk_id"]
    except (ValueError, KeyError, TypeError) as error:
        message = f"Line {number} must be a JSON object with the fields query and chunk_id."
        raise click.ClickException(message) from error


async def find_places(pairs: Sequence[GoldenQuery], call_tool: CallTool) -> list[int]:
    """Return at which of the first ten hits each passage is, or is named as a copy; otherwise 0."""
    places = []
    for query, chunk_id in pairs:
        answer = await call_tool("search_kb", {"query": query, "limit": 10})
        matching_places = (
            place
            for place, hit in enumerate(answer.result["results"], 1)
            if chunk_id in {copy["chunk_id"] for copy in (hit, *(hit.get("also_in") or ()))}
        )
        places.append(next(matching_places, 0))
    return places


async def _explain(question: str, chunk_id: str, ctx: Context) -> str:
    from functions.tools.knowledge.search_kb.filters import Filters
    from shared.knowledge.chunk_repository import Chunks
    from shared.knowledge.copies import fold

    chunk = await _load_chunk(chunk_id, ctx.database)
    hits = await _rank(question, None, ctx)
    place = next((place for place, hit in enumerate(hits, 1) if hit.id == chunk_id), 0)
    listed = [*enumerate(hits, 1)][: min(place - 1, _MAX_ABOVE) if place else _MAX_ABOVE]
    if place:
        sentence = f"Place {place} of {len(hits)} passages that were compared."
        compared = await Chunks(ctx.database).get_all([hit.id for hit in hits[:place]])
        for first, copies in fold(compared).items():
            if chunk_id in {copy.id for copy in copies}:
                sentence += f" Search folds it into {first}, which says the same."
        listed.append((place, hits[place - 1]))
    else:
        sentence = f"Not among the {len(hits)} passages that were compared."
        if chunk.is_kept_out:
            sentence = f"Not compared, as it is kept out: a search filtered by {KEEP_OUT} finds it."
        # A search of its source alone compares it, which gives its scores, but other answers.
        hits = await _rank(question, Filters(source=chunk.source_id), ctx)
        listed += [(0, hit) for hit in hits if hit.id == chunk_id]
    chunks = await Chunks(ctx.database).get_all([hit.id for _, hit in listed])
    by_id = {chunk.id: chunk for chunk in chunks}  # without those deleted a moment ago
    rows = [_format(place, hit, by_id[hit.id]) for place, hit in listed if hit.id in by_id]
    return f"{sentence}\n{format_table(_HEADER, rows)}"


async def _rank(question: str, filters: Filters | None, ctx: Context) -> list[Candidate[Chunk]]:
    """Rank passages as `search_kb` does: those that answer, then the others, nearest first."""
    from functions.tools.knowledge.search_kb.filters import to_selection
    from functions.tools.knowledge.search_kb.tool import order_hits
    from shared.knowledge.corpus import get_knowledge_corpus
    from shared.search.hybrid import rank
    from shared.search.query import Mode, SearchQuery
    from shared.search.understanding import understand

    now = ctx.clock()
    selection = to_selection(filters, now, zone=ctx.zone, cards_only=False)
    understanding = understand(question, now, ctx.zone)
    query = SearchQuery(question, Mode.HYBRID, selection, understanding=understanding)
    ranking = await rank(query, get_knowledge_corpus(ctx.database), ctx)
    return [*(hit for hit in order_hits(ranking, query) if hit.answers), *ranking.nearest]


def _format(place: int, hit: Candidate[Chunk], chunk: Chunk) -> tuple[str, ...]:
    """Return the row of a passage."""
    from shared.text.excerpts import find_matching_words
    from shared.text.snippets import make_snippet

    text = f"{chunk.title} {chunk.author or ''} {chunk.content}"
    return (
        str(place or "-"),
        "yes" if place and hit.answers else "no",
        "-" if hit.similarity is None else f"{hit.similarity:.2f}",
        f"{hit.bm25:.2f}",
        ", ".join(find_matching_words(text, hit.terms)),
        f"{hit.id} {make_snippet(chunk.content, _PASSAGE_WIDTH)}",
    )
