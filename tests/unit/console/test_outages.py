"""A page says that a tool is down or rejects a call, and still shows its other parts."""

from typing import Any

import pytest

from functions.gateway.console.messages import describe_error
from shared.core.errors import (
    CarrelError,
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    PaymentRequired,
    PlatformFault,
    RateLimited,
    ToolFailure,
    Unauthorized,
    Unavailable,
    make_internal_error,
)
from shared.runtime.messages import WireError
from tests.support.console_app import (
    PAGES,
    WORDS_FOR_MODELS,
    answer_with,
    make_console_client,
    make_result,
    parse_page,
    read_texts,
    select,
)
from tests.support.fake_catalog import FakeDispatcher

OUTAGE = Unavailable("It is temporarily unreachable. Try again in 10 s.", retry_after=10)


def answer_with_error(tool_name: str, error: CarrelError) -> FakeDispatcher:
    """Answer calls of one tool with an error, and all others with a valid result."""

    def answer(tool: str, _arguments: dict[str, Any]) -> dict[str, Any] | CarrelError:
        return error if tool == tool_name else make_result(tool, "text")

    return FakeDispatcher(answer)


@pytest.mark.parametrize(
    ("tool", "path", "other_part"),
    [
        ("get_stats", "/", ".rows"),
        ("search_kb", "/", ".chips"),
        ("list_sources", "/sources", ".search"),
        ("search_kb", "/?q=x", ".search"),
        ("get_chunk", "/sources/s?passage=c", ".passage"),
        ("get_source", "/sources/s", ".brand"),
        ("list_clusters", "/map", ".map"),
        ("get_cluster", "/clusters/c", ".brand"),
        ("list_forgotten", "/forgotten", ".brand"),
        ("get_changes", "/changes", ".brand"),
        ("list_origins", "/add", ".panel"),
    ],
)
async def test_a_page_shows_an_outage_and_its_other_parts(
    tool: str, path: str, other_part: str
) -> None:
    async with make_console_client(answer_with_error(tool, OUTAGE)) as client:
        page = parse_page(await client.get(path))
    assert read_texts(page, "[role=alert]") == [
        "A part of Carrel does not answer right now. Try again in 10 s."
    ]
    assert select(page, other_part)


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (OUTAGE, 503, "10"),
        (RateLimited("Rate limit reached.", retry_after=7), 429, "7"),
        (NotFound("There is no source s."), 404, None),
        (PlatformFault("get_source failed."), 500, None),
    ],
)
async def test_an_error_of_the_main_tool_sets_the_pages_status(
    error: CarrelError, status: int, retry_after: str | None
) -> None:
    async with make_console_client(answer_with_error("get_source", error)) as client:
        response = await client.get("/sources/s")
    assert response.status_code == status
    assert response.headers.get("retry-after") == retry_after
    assert len(read_texts(parse_page(response), "[role=alert]")) == 1


async def test_a_fault_of_the_console_reveals_nothing() -> None:
    dispatcher = FakeDispatcher(lambda *_: {"unexpected": "a private thought"})
    async with make_console_client(dispatcher) as client:
        response = await client.get("/clusters/c")
    assert response.status_code == 500
    [message] = read_texts(parse_page(response), "[role=alert]")
    assert message.startswith("Carrel has an internal error")
    assert "private" not in response.text


FAILURES = [
    InvalidInput("list_sources was not run. cursor: x. Call it again.", details={"cursor": "x"}),
    InvalidInput("Pass at least one of title, author, tags and reset."),
    NotFound("There is no chunk c. Pass its chunk_id to get_chunk.", details={"chunk_id": "c"}),
    Conflict("Call get_source again without the cursor."),
    Unauthorized("Sign in to call list_sources."),
    Forbidden("Only an owner may call forget: carrel accounts role anna owner"),
    PaymentRequired("The call of search_kb costs $0.01."),
    RateLimited("Rate limit reached: 60 calls to tools.", retry_after=7),
    Unavailable("get_source is not reachable."),
    make_internal_error("get_source", "4711"),
]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: error.message)
@pytest.mark.parametrize("path", PAGES)
async def test_no_page_shows_advice_that_is_meant_for_models(path: str, error: CarrelError) -> None:
    async with make_console_client(FakeDispatcher(lambda *_: error)) as client:
        response = await client.get(path)

    # The page `/` shows a search form even if all tools fail.
    assert (response.status_code == error.status) is (path != "/")

    messages = read_texts(parse_page(response), "[role=alert]")
    assert messages
    for message in messages:
        assert WORDS_FOR_MODELS.search(message) is None, message
        assert message.endswith(".")
    assert ("4711" in messages[0]) is isinstance(error, PlatformFault)


@pytest.mark.parametrize("path", ["/?q=x", "/sources", "/map", "/map/points", "/map/hits?q=x"])
async def test_no_message_of_a_tool_shows_its_backticks(path: str) -> None:
    answers = answer_with(message="Run `carrel ingest PATH`.")
    async with make_console_client(answers) as client:
        response = await client.get(path)
    assert response.status_code == 200
    assert "Run carrel ingest PATH." in response.text


@pytest.mark.parametrize("path", ["/", "/map/points"])
async def test_no_message_of_the_gateway_shows_its_backticks(path: str) -> None:
    async with make_console_client(FakeDispatcher(lambda *_: OUTAGE)) as client:
        response = await client.get(path, headers={"x-forwarded-for": "203.0.113.7"})
    assert response.status_code == 401
    assert "--sign-in" in response.text
    assert "`" not in response.text


@pytest.mark.parametrize("kind", ToolFailure.__subclasses__(), ids=lambda kind: kind.code)
@pytest.mark.parametrize("tool", ["edit_source", "save_note", "forget", "get_source"])
def test_every_code_has_a_sentence_for_each_tool(tool: str, kind: type[ToolFailure]) -> None:
    error = WireError.model_validate(kind("Call x_y.").to_wire())
    described = describe_error(tool, error)
    assert described.code == kind.code
    unknown = WireError(code="NEW_CODE", message="", details={})  # of a later version
    assert described.message != describe_error(tool, unknown).message
    assert WORDS_FOR_MODELS.search(described.message) is None


@pytest.mark.parametrize(
    ("details", "message"),
    [
        (
            {"text": "line 2: AWS access key"},
            "The text seems to contain a secret, which others could read: line 2: AWS access key.",
        ),
        (
            {"tags.3": "must be one line.", "title": "required, but missing"},
            "The tags: must be one line. The title: required, but missing.",
        ),
        (
            {"source_id": "x"},
            "The address or the form is not valid. Go back, reload, and try again.",
        ),
    ],
)
def test_a_message_names_the_field_and_its_problem(details: dict[str, Any], message: str) -> None:
    error = WireError(code=InvalidInput.code, message="x", details=details)
    assert message in describe_error("save_note", error).message
