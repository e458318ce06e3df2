"""One call of a tool: parse, run within the deadline, map errors, log. No HTTP and no MCP."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

from shared.call import CallAnswer, Receipt
from shared.errors import InvalidInput, PlatformFault, ToolFailure, Unavailable
from shared.logs import describe, log
from shared.store import Meter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic_core import ErrorDetails

    from shared.call import CallRequest
    from shared.deps import Backend
    from shared.tool import Arguments, Result, Tool


async def call(tool: Tool[Any, Any], request: CallRequest, backend: Backend) -> CallAnswer:
    """Run one call to its end; whatever goes wrong becomes an error on the wire."""
    meter = Meter()
    started = time.perf_counter()
    try:
        result = await _run(tool, request, backend, meter)
        outcome: dict[str, Any] = {"result": result.model_dump(mode="json", exclude_none=True)}
    except Exception as error:  # noqa: BLE001 - the boundary: every error becomes an answer
        outcome = {"error": _told(error, request, tool)}
    milliseconds = round((time.perf_counter() - started) * 1000, 1)
    answer = CallAnswer(**outcome, receipt=_receipt(meter, milliseconds))
    _log_call(tool, request, answer)
    return answer


def parse(tool: Tool[Any, Any], arguments: dict[str, Any]) -> Arguments:
    """Check arguments against the tool's input.

    Raises:
        InvalidInput: With one entry per offending field in `details`.
    """
    try:
        # As JSON, strictly: "5" is no number and true is no 1, but an enumeration is its string.
        text = json.dumps(_whole(arguments))
        parsed: Arguments = tool.input.model_validate_json(text, strict=True)
    except ValidationError as error:
        details = {_field(each["loc"]): _problem(tool, each) for each in error.errors()}
        wrong = "; ".join(f"{name}: {message}" for name, message in details.items())
        message = f"{tool.name} was not run. {wrong}. Correct this and call {tool.name} again."
        raise InvalidInput(message, details=details) from None
    return parsed


async def _run(
    tool: Tool[Any, Any], request: CallRequest, backend: Backend, meter: Meter
) -> Result:
    arguments = parse(tool, request.arguments)
    seconds = min(tool.timeout, request.deadline - time.time())
    if seconds <= 0:
        raise Unavailable(f"{tool.name} was not run: its time was up.", retry_after=5)
    try:
        async with asyncio.timeout(seconds):
            result: Result = await tool.run(arguments, backend.deps(request.caller, meter))
    except TimeoutError:
        message = (
            f"{tool.name} did not finish within {max(seconds, 0):.0f} s. Try again in a moment."
        )
        raise Unavailable(message, retry_after=5) from None
    return result


def _told(error: Exception, request: CallRequest, tool: Tool[Any, Any]) -> dict[str, Any]:
    """The error as the caller may see it: of a fault of ours nothing but the call's id."""
    if isinstance(error, Unavailable):
        log.warning("unavailable", tool=tool.name, call_id=request.call_id, **describe(error))
    if isinstance(error, ToolFailure):
        return error.to_wire()
    log.error("fault", tool=tool.name, call_id=request.call_id, **describe(error))
    message = f"{tool.name} failed on our side. Report it with the call id {request.call_id}."
    return PlatformFault(message, details={"call_id": request.call_id}).to_wire()


def _receipt(meter: Meter, milliseconds: float) -> Receipt:
    return Receipt(
        documents_read=meter.documents_read,
        documents_written=meter.documents_written,
        round_trips=meter.round_trips,
        milliseconds=milliseconds,
    )


def _log_call(tool: Tool[Any, Any], request: CallRequest, answer: CallAnswer) -> None:
    log.info(
        "tool_call",
        tool=tool.name,
        call_id=request.call_id,
        user=request.caller.user_id,
        outcome=answer.error.code if answer.error else "ok",
        arguments=_sizes(tool, request.arguments),
        **answer.receipt.model_dump(),
    )


def _sizes(tool: Tool[Any, Any], arguments: dict[str, Any]) -> dict[str, int]:
    """How long each argument is. A name that the tool does not know may itself be content."""
    known = tool.input.model_fields
    return {name: len(json.dumps(value)) for name, value in arguments.items() if name in known}


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 5.0 is an integer too, and some clients write it so."""
    match value:
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
    return ".".join(str(part) for part in location) or "arguments"
