"""Every tool takes what its examples say, replays and undoes writes, and keeps privacy.

The examples call the tools on a base that is stored once and copied for each test.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Collection, Iterator
from typing import Any

import pytest
from mcp_types import CallToolResult, TextContent

from functions.gateway.catalog import Declaration
from functions.gateway.mcp.results import REPLAY_REMARK, to_compact_json, to_result
from infra.build.discovery import tools
from shared.core.caller import Caller
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.messages import CallAnswer, Receipt, WireError
from shared.runtime.pagination import PagedArguments
from shared.runtime.tool import Effect
from tests.examples.base import ANNA, DOCUMENT, OWNER, PRIVATE_WORD, STRANGER, store_base
from tests.examples.catalog import EXAMPLES
from tests.examples.example import Cost
from tests.support.clock import NOON, SettableClock
from tests.support.database_dump import Contents, read_all_documents, summarize, write_documents
from tests.support.fakes.embedder import WordEmbedder
from tests.support.fakes.recording_embedder import RecordingEmbedder
from tests.support.jobs import make_job_context
from tests.support.knowledge import index_all
from tests.support.mcp_wire import assert_matches_schema
from tests.support.tool_calls import call, call_error, call_result, find_tool

State = dict[str, dict[str, Any]]
"""The fields of documents, by path."""


PAGED = [tool.name for tool in tools() if issubclass(tool.input, PagedArguments)]
READING = [tool.name for tool in tools() if tool.effect is Effect.READ]
WRITING = [tool.name for tool in tools() if tool.effect is not Effect.READ]
UNKNOWN_IDS = {
    "task_id": "99",
    "document": "0" * 32,
    **dict.fromkeys(("about", "chunk_id", "cluster_id", "source_id"), "nobody-000000000000"),
    **dict.fromkeys(("trace_id", "supersedes"), f"{99:016x}"),
}
CALLS = [
    (name, number) for name, example in EXAMPLES.items() for number in range(len(example.costs))
]
"""The calls whose cost an example gives: the tool, and the number of the call."""
SHORT_ANSWER = 400
"""The length of JSON in bytes from which on it is compared with the text."""
MAX_RATIO = 1.5
"""How many times as long as its text the JSON of an answer is at most."""
MAX_RATIO_OF_LISTS = 1.7
"""The same for answers with a list of objects, which repeat their field names."""
HIT_TEXTS = {"title", "author", "address", "snippet", "content", "context", "solution"}
"""The fields of a hit whose values do not count towards its size: they are texts of any length."""
MAX_HIT_JSON = 200
"""The maximum size of a hit as JSON in bytes, without the values of those fields."""
MAX_HIT_TEXT = 120
"""The maximum size of a hit as text."""
FRAME = 100
"""The maximum size of the words between and below hits, without messages and cursors."""
ECHOES = {"metadata.query", "metadata.search_type"}
"""Fields that repeat the call, which the text does not."""
BATCHES = {"tasks", "task_ids"}
"""Arguments of calls that change several things. Each of these is undone by itself."""
UNDOABLE = [
    (name, number)
    for name, number in CALLS
    if EXAMPLES[name].undo_leaves is not None
    and BATCHES.isdisjoint(EXAMPLES[name].costs[number][0])
]


@pytest.fixture(scope="module")
async def stored_base() -> AsyncIterator[App]:
    """An app whose database contains the base, which tests only read."""
    settings = Settings(google_cloud_project=f"examples-{uuid.uuid4().hex[:16]}")
    app = App(settings, clock=SettableClock(NOON), embedder=WordEmbedder())
    await store_base(app)
    yield app
    await app.aclose()


@pytest.fixture(scope="module")
async def contents(stored_base: App) -> Contents:
    """The documents of the base."""
    return await read_all_documents(stored_base.connection.client)


@pytest.fixture
async def reading_app(stored_base: App) -> App:
    """The app with the base, as in a process that has searched once."""
    stored_base.connection.caches.clear()
    await call_result(stored_base, "search_kb", query="warm")
    return stored_base


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the base."""
    return SettableClock(NOON)


@pytest.fixture
def embedder() -> RecordingEmbedder:
    """An embedder that knows a query from a document, as a provider does."""
    return RecordingEmbedder()


@pytest.fixture
async def app(app: App, contents: Contents) -> App:
    """An app with a copy of the base, in a process that has searched once."""
    await write_documents(app.connection.client, contents)
    await call_result(app, "search_kb", query="warm")
    return app


def get_cost(receipt: Receipt) -> Cost:
    """Return what a call took."""
    return Cost(receipt.round_trips, receipt.documents_read, receipt.documents_written)


def get_cursor(result: dict[str, Any]) -> str | None:
    """Return the cursor of the next page, if there is one."""
    cursor: str | None = result.get("metadata", result).get("next_cursor")
    return cursor


def assert_code(name: str, error: WireError, code: str) -> None:
    """Assert that an error has a code, for which the tools for tasks publish their own."""
    assert error.code == code
    if envelope := find_tool(name).envelope:
        published = {"NOT_FOUND": "not_found", "CONFLICT": "invalid_input"}
        assert envelope.translate_error(error)["code"] == published[code]


async def assert_call_takes_its_cost(app: App, name: str, number: int) -> None:
    """Make a call whose cost an example gives, and compare its answer with the schema."""
    arguments, cost = EXAMPLES[name].costs[number]
    answer = await call(app, name, EXAMPLES[name].caller, **arguments)
    assert answer.result is not None, answer.error
    actual = get_cost(answer.receipt)
    assert actual == cost, f"{arguments} took {actual}"
    declaration = find_tool(name).declaration()
    result = to_result(answer, Declaration.model_validate(declaration))
    assert_matches_schema(result.structured_content, declaration["outputSchema"])
    assert_forms_agree(result, nullable=find_tool(name).output.always_included)


def iterate_values(
    value: Any, path: str = "", *, in_list: bool = False
) -> Iterator[tuple[str, Any, bool]]:
    """Yield the path and the value of everything in JSON, and whether it is within a list."""
    yield path, value, in_list
    if isinstance(value, dict):
        for name, part in value.items():
            yield from iterate_values(part, f"{path}.{name}".strip("."), in_list=in_list)
    elif isinstance(value, list):
        for part in value:
            yield from iterate_values(part, path, in_list=True)


def read_text(result: CallToolResult) -> str:
    """Return the text of a result, which is its only block."""
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


def assert_forms_agree(result: CallToolResult, nullable: Collection[str]) -> None:
    """Assert that the JSON of an answer is short, and that its text says the same.

    Some clients show a model the JSON, others the text. Messages of a text are fields of the JSON.
    """
    content, text = result.structured_content or {}, read_text(result)
    values = list(iterate_values(content))
    assert [path for path, value, in_list in values if in_list and value in (None, [])] == []
    assert {path for path, value, _ in values if value is None} <= {"error", *nullable}
    numbers = [value for _, value, _ in values if isinstance(value, float)]
    assert numbers == [round(number, 3) for number in numbers]
    if text.startswith("{"):
        assert json.loads(text) == content
        return
    assert_hits_are_cheap(content, text)
    words = " ".join(text.split())
    assert [
        (path, value)
        for path, value, _ in values
        if isinstance(value, str) and path not in ECHOES and " ".join(value.split()) not in words
    ] == []
    size, text_size = count_bytes(content), len(text.encode())
    is_list = any(isinstance(value, dict) for _, value, in_list in values if in_list)
    ratio = MAX_RATIO_OF_LISTS if is_list else MAX_RATIO
    assert size <= max(SHORT_ANSWER, ratio * text_size), (size, text_size)


def count_bytes(value: Any) -> int:
    """Return the size of a value as JSON in bytes. The quotation marks of a string do not count."""
    return len(to_compact_json(value).encode()) - 2 * isinstance(value, str)


def assert_hits_are_cheap(content: dict[str, Any], text: str) -> None:
    """Assert that hits are small apart from their titles, authors, addresses and texts."""
    hits = [
        value
        for _, value, in_list in iterate_values(content)
        if in_list and isinstance(value, dict) and {"snippet", "context"} & value.keys()
    ]
    texts = [
        sum(count_bytes(hit[name]) for name in HIT_TEXTS & hit.keys() if hit[name]) for hit in hits
    ]
    costs = [count_bytes(hit) - length for hit, length in zip(hits, texts, strict=True)]
    assert max(costs, default=0) <= MAX_HIT_JSON
    if passages := [hit for hit in content.get("results", []) if "snippet" in hit]:
        others = ["message", "understood", "next_cursor", "clusters"]
        rest = sum(count_bytes(content[name]) for name in others if name in content)
        cost = len(text.encode()) - sum(texts) - rest - FRAME
        assert cost <= MAX_HIT_TEXT * len(passages), (cost, len(passages))


@pytest.mark.requirement(
    "003-M2", "004-AC7", "004-I1", "004-I3", "004-N4", "004-S2", "004-T3.5", "004-U3"
)
@pytest.mark.parametrize(("name", "number"), [call for call in CALLS if call[0] in READING])
async def test_reading_takes_what_the_example_says(
    reading_app: App, name: str, number: int
) -> None:
    await assert_call_takes_its_cost(reading_app, name, number)


@pytest.mark.requirement("001-C1")
@pytest.mark.parametrize(("name", "number"), [call for call in CALLS if call[0] in WRITING])
async def test_writing_takes_what_the_example_says(
    app: App, embedder: RecordingEmbedder, name: str, number: int
) -> None:
    """And what it stores is embedded as a document."""
    embedder.queries.clear()
    await assert_call_takes_its_cost(app, name, number)
    assert {*embedder.queries} <= {EXAMPLES[name].costs[number][0].get("query")}


@pytest.mark.parametrize("name", PAGED)
async def test_the_next_page_follows_and_takes_its_cost(reading_app: App, name: str) -> None:
    example = EXAMPLES[name]
    arguments = example.arguments | {"limit": 1}
    page = await call_result(reading_app, name, example.caller, **arguments)
    cursor = get_cursor(page)
    answer = await call(reading_app, name, example.caller, **arguments, cursor=cursor)
    assert cursor
    assert answer.error is None
    assert answer.result != page
    assert get_cost(answer.receipt) == example.next_page


@pytest.mark.parametrize("name", PAGED)
async def test_a_cursor_of_another_call_is_refused_unread(reading_app: App, name: str) -> None:
    """So is one that was damaged."""
    example = EXAMPLES[name]
    arguments = example.arguments | {"limit": 1}
    cursor = get_cursor(await call_result(reading_app, name, example.caller, **arguments))
    assert cursor
    calls = [arguments | {"cursor": cursor[:-4]}, arguments | {"cursor": f"A{cursor[1:]}"}]
    if example.other_call is not None:
        calls.append(arguments | example.other_call | {"cursor": cursor})
    for other in calls:
        answer = await call(reading_app, name, example.caller, **other)
        assert answer.error
        assert answer.error.code == "VALIDATION_ERROR"
        assert list(answer.error.details) == ["cursor"]
        assert answer.receipt.round_trips == 0


@pytest.mark.requirement("003-C4", "003-E2", "004-AC9", "004-N5", "004-S5", "004-T1.7", "004-T3.7")
@pytest.mark.parametrize(
    ("name", "field"),
    [(name, field) for name, example in EXAMPLES.items() for field in example.missing],
)
async def test_an_unknown_id_says_how_to_find_ids(reading_app: App, name: str, field: str) -> None:
    example = EXAMPLES[name]
    unknown = UNKNOWN_IDS[field]
    # The id of a stored text takes the place of a text.
    others = {key: value for key, value in example.arguments.items() if key != "materials"}
    arguments = (others if field == "document" else example.arguments) | {field: unknown}
    error = await call_error(reading_app, name, example.caller, **arguments)
    assert_code(name, error, "NOT_FOUND")
    assert error.details.keys() <= {field}
    assert example.missing[field] in error.message


@pytest.mark.requirement("003-M1", "003-M5")
@pytest.mark.parametrize("name", WRITING)
async def test_a_repeated_call_is_replayed_and_writes_nothing(app: App, name: str) -> None:
    """This holds even if the first call was undone in between."""
    example = EXAMPLES[name]
    arguments = example.arguments | {"idempotency_key": "k"}
    first = await call(app, name, example.caller, **arguments)
    assert first.result
    if undo := first.result.get("undo"):
        await call_result(app, undo["tool"], example.caller, **undo["arguments"])
    repeated = await call(app, name, example.caller, **arguments)
    assert repeated.result == first.result
    assert repeated.text == first.text
    assert (first.receipt.replayed, repeated.receipt.replayed) == (None, True)
    assert get_cost(repeated.receipt) == Cost(1, 1)
    replay = to_result(repeated, Declaration.model_validate(find_tool(name).declaration()))
    assert (replay.structured_content or {})["remark"] == REPLAY_REMARK
    assert REPLAY_REMARK in read_text(replay)


@pytest.mark.parametrize("name", WRITING)
async def test_calls_with_one_key_at_once_are_run_once(app: App, name: str) -> None:
    """A source is forgotten in several commits, during which other calls are refused."""
    example = EXAMPLES[name]
    arguments = example.arguments | {"idempotency_key": "k"}
    answers = await asyncio.gather(
        *(call(app, name, example.caller, **arguments) for _ in range(3))
    )
    messages = [answer.error.message for answer in answers if answer.error]
    assert [message for message in messages if "Try again" not in message] == []
    assert not messages or name == "forget"
    assert len({str(answer.result) for answer in answers if answer.result}) == 1
    assert [answer.receipt.replayed for answer in answers if answer.result].count(None) == 1


@pytest.mark.parametrize("name", WRITING)
async def test_a_key_of_another_call_is_refused(app: App, name: str) -> None:
    example = EXAMPLES[name]
    await call_result(app, name, example.caller, **example.arguments, idempotency_key="k")
    error = await call_error(
        app, name, example.caller, **example.arguments | example.change, idempotency_key="k"
    )
    assert_code(name, error, "CONFLICT")
    assert "idempotency_key" in error.message


async def read_indexed_state(app: App, ignored: Collection[str]) -> State:
    """Return what the database says once the index job has run, without some fields."""
    await index_all(make_job_context(app))
    return summarize(await read_all_documents(app.connection.client), ignored)


def find_differences(before: State, after: State, one_sided: Collection[str] = ()) -> list[str]:
    """Return the paths of documents that differ.

    Documents whose paths contain one of `one_sided` may be in one of the states only.
    """
    return [
        path
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
        and ((path in before and path in after) or not any(name in path for name in one_sided))
    ]


@pytest.mark.parametrize(("name", "number"), UNDOABLE)
async def test_undo_restores_the_state_and_can_be_undone(app: App, name: str, number: int) -> None:
    example = EXAMPLES[name]
    arguments, _ = example.costs[number]
    leaves = example.undo_leaves or frozenset()
    one_sided = {name for name in leaves if name.endswith("/")}
    ignored_fields = leaves - one_sided
    before = await read_indexed_state(app, ignored_fields)
    result = await call_result(app, name, example.caller, **arguments)
    after = await read_indexed_state(app, ignored_fields)
    assert find_differences(before, after)

    undo = result["undo"]
    undone = await call_result(app, undo["tool"], example.caller, **undo["arguments"])
    undone_state = await read_indexed_state(app, ignored_fields)
    assert find_differences(before, undone_state, one_sided) == []

    redo = undone["undo"]
    await call_result(app, redo["tool"], example.caller, **redo["arguments"])
    redone_state = await read_indexed_state(app, ignored_fields)
    assert find_differences(after, redone_state, one_sided) == []


def find_private_words(answer: CallAnswer) -> list[str]:
    """Return the words of Anna's private data, of her name and of a voter's, in an answer."""
    text = answer.model_dump_json().lower()
    return [word for word in (PRIVATE_WORD, "lovelace", "gauss") if word in text]


@pytest.mark.requirement("003-D7", "003-I1", "003-P1")
@pytest.mark.parametrize("name", READING)
async def test_another_user_reads_nothing_private(reading_app: App, name: str) -> None:
    for caller in (STRANGER, Caller()):
        answer = await call(reading_app, name, caller, **EXAMPLES[name].arguments)
        assert find_private_words(answer) == []
    answer = await call(reading_app, name, ANNA, **EXAMPLES[name].arguments)
    assert "gauss" not in answer.model_dump_json()


@pytest.mark.parametrize("name", WRITING)
async def test_another_user_changes_nothing_private(
    app: App, contents: Contents, name: str
) -> None:
    answer = await call(app, name, STRANGER, **EXAMPLES[name].arguments)
    assert find_private_words(answer) == []
    after = await read_all_documents(app.connection.client)
    own = f"users/{ANNA.user_id}/"
    own_before, own_after = (
        {path: snapshot.to_dict() for path, snapshot in state.items() if path.startswith(own)}
        for state in (contents, after)
    )
    assert own_before
    assert own_after == own_before


@pytest.mark.requirement("003-D8", "003-E2", "003-I1", "003-I2", "003-L5")
@pytest.mark.parametrize("name", [name for name in WRITING if EXAMPLES[name].refused])
async def test_another_user_is_refused_and_changes_nothing(reading_app: App, name: str) -> None:
    for arguments, code, part in EXAMPLES[name].refused:
        answer = await call(reading_app, name, STRANGER, **arguments)
        assert answer.error, arguments
        assert answer.error.code == code
        assert part in answer.error.message
        for field in UNKNOWN_IDS if code == "NOT_FOUND" else ():
            if field in arguments:
                error = await call_error(
                    reading_app, name, STRANGER, **arguments | {field: UNKNOWN_IDS[field]}
                )
                message = error.message.replace(UNKNOWN_IDS[field], arguments[field])
                assert message == answer.error.message
        assert answer.receipt.documents_written == 0
        assert find_private_words(answer) == []


@pytest.mark.parametrize(
    ("name", "number"),
    [
        (name, number)
        for name, example in EXAMPLES.items()
        for number, (_, _, part) in enumerate(example.refused)
        if "owner" in part
    ],
)
async def test_an_owner_may_do_what_requires_an_owner(app: App, name: str, number: int) -> None:
    await call_result(app, name, OWNER, **EXAMPLES[name].refused[number][0])


@pytest.mark.parametrize(
    "name", ["list_tasks", "list_forgotten", "get_changes", "extract_key_info"]
)
async def test_the_user_finds_the_private_word(reading_app: App, name: str) -> None:
    """Otherwise the tests of privacy could not fail."""
    arguments = {"query": "zoo", "document": DOCUMENT} if name == "extract_key_info" else {}
    result = await call_result(reading_app, name, ANNA, **arguments)
    assert PRIVATE_WORD in str(result)


@pytest.mark.parametrize("part", ["missing", "costs", "next_page", "undo_leaves", "refused"])
def test_every_part_of_an_example_is_used(part: str) -> None:
    assert any(getattr(example, part) for example in EXAMPLES.values())


def test_every_tool_has_a_cost_and_every_paged_tool_a_next_page() -> None:
    assert [name for name, example in EXAMPLES.items() if not example.costs] == []
    assert [name for name in PAGED if EXAMPLES[name].next_page is None] == []
