"""Calls `extract_key_info`, the tool that finds in a text what matters for a query."""

from collections.abc import Mapping
from typing import Any, Final

from shared.core.caller import Caller
from shared.runtime.context import App
from shared.runtime.messages import CallAnswer, WireError
from tests.support.tool_calls import call, call_result

READER: Final = Caller.of("reader")
"""The default caller."""
STRANGER: Final = Caller.of("stranger")
"""A caller who must not see the reader's texts."""

MAST: Final = "The mast of the boat was struck by lightning and split from top to deck."
BREAD: Final = "Rye bread needs a sour dough, since rye has too little gluten for yeast alone."
COMET: Final = "A comet's tail always points away from the sun, whichever way the comet moves."
BRIDGE: Final = "The bridge was closed for repairs after rust was found in its cables."
TEXT: Final = f"{MAST}\n\n{BREAD}\n\n{COMET}\n\n{BRIDGE}"
"""A text of four passages about different things."""


def quote_all(result: Mapping[str, Any], texts: Mapping[str, str]) -> list[str]:
    """Return the passages that an answer locates: its contexts, and the whole of its near passages.

    Args:
        texts: The texts by their ids.
    """
    return [
        texts[place.get("document") or result["document"]][place["start"] : place["end"]]
        for place in [*result["passages"], *result.get("near", [])]
    ]


async def call_extract(
    app: App, query: str, caller: Caller = READER, **arguments: Any
) -> CallAnswer:
    """Call `extract_key_info`, and return the answer: a result or an error."""
    return await call(app, "extract_key_info", caller, query=query, **arguments)


async def extract_result(
    app: App, query: str, caller: Caller = READER, **arguments: Any
) -> dict[str, Any]:
    """Assert that a call of `extract_key_info` succeeds, and return its result."""
    return await call_result(app, "extract_key_info", caller, query=query, **arguments)


async def extract_error(
    app: App, query: str, caller: Caller = READER, **arguments: Any
) -> WireError:
    """Assert that a call of `extract_key_info` fails, and return its error."""
    answer = await call_extract(app, query, caller, **arguments)
    assert answer.error is not None, answer.result
    return answer.error
