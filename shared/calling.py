"""One call of a tool: parse, run within the deadline, map errors. No HTTP and no MCP."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import BaseModel, ValidationError

from shared.call import CallAnswer, Receipt
from shared.errors import InvalidInput, ToolFailure, Unavailable, fault
from shared.logs import describe, log
from shared.once import Replayed, as_json, once
from shared.outages import Outcome, explained, outage
from shared.store import Meter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic_core import ErrorDetails

    from shared.call import CallRequest
    from shared.deps import Backend, Deps
    from shared.tool import Arguments, Result, Tool

MOST_ARGUMENTS: Final = 100
MOST_TOLD: Final = 20
"""Problems that are told: a model learns nothing from more, and a stranger may cause thousands."""
LONGEST_NAME: Final = 80
"""Characters of a field's name that are quoted."""


async def call(tool: Tool[Any, Any], request: CallRequest, backend: Backend) -> CallAnswer:
    """Run one call to its end; whatever goes wrong becomes an error on the wire."""
    meter = Meter()
    deps = backend.deps(request.caller, meter)
    started = time.perf_counter()
    try:
        outcome: dict[str, Any] = {"result": await _run(tool, request, deps)}
    except Exception as error:  # noqa: BLE001 - the boundary: every error becomes an answer
        outcome = {"error": _told(error, request, tool)}
    milliseconds = round((time.perf_counter() - started) * 1000, 1)
    return CallAnswer(**outcome, receipt=_receipt(deps, meter, milliseconds))


def parse(tool: Tool[Any, Any], arguments: dict[str, Any]) -> Arguments:
    """Check arguments against the tool's input.

    Raises:
        InvalidInput: With one entry per offending field in `details`.
    """
    try:
        # As JSON, strictly: "5" is no number and true is no 1, but an enumeration is its string.
        text = json.dumps(_whole(arguments))
        parsed: Arguments = tool.input.model_validate_json(text, strict=True)
    except _TooMany:
        message = f"an object has more than {MOST_ARGUMENTS} fields"
        raise _invalid(tool, {"arguments": message}) from None
    except RecursionError:
        raise _invalid(tool, {"arguments": "nested too deeply"}) from None
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        details = {_field(each["loc"]): _problem(tool, each) for each in problems[:MOST_TOLD]}
        raise _invalid(tool, details, more=len(problems) - len(details)) from None
    return parsed


class _TooMany(Exception):
    """An object has so many fields that only telling of them would take a second."""


def _invalid(tool: Tool[Any, Any], details: dict[str, str], more: int = 0) -> InvalidInput:
    wrong = "; ".join(f"{name}: {message}" for name, message in details.items())
    wrong += f"; and {more} more" if more else ""
    message = f"{tool.name} was not run. {wrong}. Correct this and call {tool.name} again."
    return InvalidInput(message, details=details)


async def _run(tool: Tool[Any, Any], request: CallRequest, deps: Deps) -> dict[str, Any]:
    """Run within the deadline, which the gateway took from the declaration or a setting."""
    arguments = parse(tool, request.arguments)
    seconds = request.deadline - time.time()
    if seconds <= 0:
        problem = f"{tool.name} was not run, as its time was up"
        raise outage(tool, request, problem, Outcome.NOTHING_DONE)
    try:
        async with asyncio.timeout(seconds) as time_limit:
            return await _once(tool, arguments, request, deps)
    except TimeoutError:
        if not time_limit.expired():
            raise
        problem = f"{tool.name} did not finish within {round(seconds, 1):g} s"
        raise outage(tool, request, problem, _outcome(deps)) from None
    except Unavailable as error:
        raise explained(tool, request, error, _outcome(deps)) from error


def _outcome(deps: Deps) -> Outcome:
    """What became of a call that did not finish: where nothing was sent to be written, nothing."""
    return Outcome.UNKNOWN if deps.meter.commits else Outcome.NOTHING_DONE


async def _once(
    tool: Tool[Any, Any], arguments: Arguments, request: CallRequest, deps: Deps
) -> dict[str, Any]:
    """Run the handler, or answer as the first time."""
    deps.once = once(arguments, request, deps)
    try:
        if deps.once:
            await deps.once.refuse_repetition()
        result: Result = await tool.run(arguments, deps)
        if deps.once and not deps.once.is_kept:  # there was nothing to change
            await deps.once.commit([], result)
        return as_json(result)
    except Replayed as replayed:
        deps.price, deps.replayed = replayed.replay.price, True
        return replayed.replay.result


def _told(error: Exception, request: CallRequest, tool: Tool[Any, Any]) -> dict[str, Any]:
    """The error as the caller may see it: of a fault of ours nothing but the call's id."""
    if isinstance(error, Unavailable):
        log.warning("unavailable", tool=tool.name, call_id=request.call_id, **describe(error))
    if isinstance(error, ToolFailure):
        return error.to_wire()
    log.error("fault", tool=tool.name, call_id=request.call_id, **describe(error))
    return fault(tool.name, request.call_id).to_wire()


def _receipt(deps: Deps, meter: Meter, milliseconds: float) -> Receipt:
    return Receipt(
        documents_read=meter.documents_read,
        documents_written=meter.documents_written,
        round_trips=meter.round_trips,
        milliseconds=milliseconds,
        embedding_ms=deps.milliseconds.get("embedding"),
        bm25_ms=deps.milliseconds.get("bm25"),
        price=deps.price,
        replayed=deps.replayed or None,
    )


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 5.0 is an integer too, and some clients write it so."""
    match value:
        case dict() if len(value) > MOST_ARGUMENTS:
            raise _TooMany
        case dict():
            return {name: _whole(each) for name, each in value.items()}
        case list():
            return [_whole(each) for each in value]
        case float() if value.is_integer():
            return int(value)
    return value


def _problem(tool: Tool[Any, Any], problem: ErrorDetails) -> str:
    match problem["type"]:
        case "extra_forbidden":
            *path, _ = problem["loc"]
            where = ".".join(map(str, path)) or tool.name
            known = ", ".join(_fields_at(tool.input, path)) or "none"
            return f"not a parameter; {where} takes {known}"
        case "missing":
            return "required, but missing"
        case "string_pattern_mismatch":
            return "not of the form that other answers have it in: copy it from one of them"
        case _:
            return problem["msg"]


def _fields_at(model: type[BaseModel], path: Sequence[int | str]) -> Iterable[str]:
    """The fields that there are at a place in a tool's input."""
    for name in path:
        if field := model.model_fields.get(str(name)):
            model = next(_models(field.annotation), model)
    return model.model_fields


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation speaks of, such as that of `list[Filter] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _field(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part)[:LONGEST_NAME] for part in location) or "arguments"
