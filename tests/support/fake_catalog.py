"""A small catalogue of tools for the gateway's tests, and a fake dispatcher that answers calls.

The tools are about shelves and books. The dispatcher is the part of the gateway that sends calls to
tools.
"""

from collections.abc import Callable, Sequence
from typing import Any

from mcp.server.lowlevel import Server
from pydantic import SecretStr

from functions.gateway.access import Access
from functions.gateway.auth.visitor import LOCAL_USER, Visitor
from functions.gateway.calls.dispatch import Dispatcher
from functions.gateway.calls.pipeline import CallPipeline
from functions.gateway.catalog import Catalog, Declaration
from functions.gateway.mcp.prompt_texts import PROMPTS
from functions.gateway.mcp.prompts import Prompt
from functions.gateway.mcp.server import build_server
from shared.core.caller import Caller, Role, Tier
from shared.core.errors import CarrelError
from shared.core.settings import Settings
from shared.runtime.messages import CallAnswer, CallRequest, Receipt
from shared.runtime.tool import Effect, ResourceListing, ResourceTemplate

Answer = dict[str, Any] | CarrelError
"""The result of a call, or its error."""

SHELF = ResourceTemplate(
    uri="carrel://shelf/{shelf_id}", name="shelf", title="Shelf", description="What stands on it."
)
BOOK = ResourceTemplate(
    uri="carrel://book/{book_id}", name="book", title="Book", description="What it says."
)

BOOKS = ResourceListing(items_field="books", uri_template=BOOK.uri, name_field="title")


def make_tool(name: str, **changes: Any) -> Declaration:
    """Declare a tool that takes and returns any object; `changes` override the defaults."""
    defaults: dict[str, Any] = {
        "title": name,
        "description": "Exists for tests.",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"},
        "effect": Effect.READ,
        "tier": Tier.PUBLIC,
        "role": Role.READER,
        "timeout": 5.0,
    }
    fields = defaults | changes
    return Declaration(name=name, **({"scope": fields["effect"].scope} | fields))


CATALOG = Catalog(
    [
        make_tool("get_shelf", resource=SHELF),
        make_tool("get_book", resource=BOOK),
        make_tool(
            "list_shelves",
            listing=ResourceListing(
                items_field="shelves", uri_template=SHELF.uri, name_field="label"
            ),
        ),
        make_tool("list_books", listing=BOOKS),
        make_tool("complete_name", internal=True, completes=["shelf", "author"]),
    ]
)


def make_pipeline(dispatcher: Dispatcher) -> CallPipeline:
    """Make a pipeline without a database, for a visitor without rate limits or billing."""
    return Access(Settings(access_secrets=[SecretStr("s" * 32)])).make_pipeline(dispatcher)


def make_server(
    dispatcher: Dispatcher, catalog: Catalog = CATALOG, prompts: Sequence[Prompt] = PROMPTS
) -> Server[Any]:
    """Make a server whose only visitor is the machine's owner, as with `carrel stdio`."""
    owner = Visitor(Caller.of(LOCAL_USER, role=Role.OWNER), rate_limit_key=None)
    return build_server(catalog, make_pipeline(dispatcher), prompts, local_visitor=owner)


class FakeDispatcher:
    """A dispatcher that answers with the result of a function, and records calls.

    Attributes:
        calls: The tool and the arguments of each call.
        callers: The caller of each call.
    """

    def __init__(self, answer: Callable[[str, dict[str, Any]], Answer]) -> None:
        """Answer with the result of `answer` for a tool's name and arguments."""
        self._answer = answer
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.callers: list[Caller] = []

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Answer a call."""
        self.calls.append((tool.name, request.arguments))
        self.callers.append(request.caller)
        answer = self._answer(tool.name, request.arguments)
        if isinstance(answer, CarrelError):
            return CallAnswer.failed(answer)
        return CallAnswer(result=answer, receipt=Receipt(documents_read=7))

    async def health(self) -> dict[str, str]:
        """Report no dependencies."""
        return {}
