"""Run one call of a tool: validate, run within the deadline, answer."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from shared.core.errors import InvalidInput, ToolFailure, Unavailable, fault
from shared.core.log import describe, log
from shared.core.meter import Meter
from shared.runtime.idempotency import AlreadyCompleted, idempotency_guard
from shared.runtime.messages import CallAnswer, Receipt
from shared.runtime.outage_advice import WriteState, explained, outage
from shared.runtime.outcome import Outcome, as_outcome, audit_facts
from shared.runtime.tool import Effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic_core import ErrorDetails

    from shared.runtime.context import Backend, Deps
    from shared.runtime.messages import CallRequest
    from shared.runtime.schemas import Arguments, Result
    from shared.runtime.tool import Tool

    ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)

MOST_ARGUMENTS: Final = 100
MAX_REPORTED_PROBLEMS: Final = 20
"""Problems that are told: a model learns nothing from more, and a stranger may cause thousands."""
LONGEST_NAME: Final = 80
"""Characters of a field's name that are quoted."""


def parse(kind: type[ArgumentsT], arguments: dict[str, Any], name: str) -> ArgumentsT:
    """Check arguments.

    Args:
        kind: What they must be.
        arguments: As they were sent.
        name: Of what takes them, for the error: a tool.

    Raises:
        InvalidInput: With one entry per offending field in `details`.
    """
    try:
        # As JSON, strictly: "5" is no number and true is no 1, but an enumeration is its string.
        return kind.model_validate_json(json.dumps(_whole(arguments)), strict=True)
    except _TooMany:
        message = f"an object has more than {MOST_ARGUMENTS} fields"
        raise invalid(name, {"arguments": message}) from None
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        details = {
            field_name(each["loc"]): _problem(kind, name, each)
            for each in problems[:MAX_REPORTED_PROBLEMS]
        }
        raise invalid(name, details, more=len(problems) - len(details)) from None


class _TooMany(Exception):
    """An object has so many fields that only telling of them would take a second."""


def invalid(name: str, details: dict[str, str], more: int = 0) -> InvalidInput:
    """The error that says what is wrong with the arguments of `name`, field by field."""
    wrong = "; ".join(f"{field}: {message}" for field, message in details.items())
    wrong += f"; and {more} more" if more else ""
    message = f"{name} was not run. {wrong}. Correct this and call {name} again."
    return InvalidInput(message, details=details)


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


def _problem(kind: type[BaseModel], name: str, problem: ErrorDetails) -> str:
    match problem["type"]:
        case "extra_forbidden":
            *path, _ = problem["loc"]
            where = ".".join(map(str, path)) or name
            known = ", ".join(_fields_at(kind, path)) or "none"
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


def field_name(location: Sequence[int | str]) -> str:
    """A place in the arguments, as errors name it."""
    return ".".join(str(part)[:LONGEST_NAME] for part in location) or "arguments"


async def call(tool: Tool[Any, Any], request: CallRequest, backend: Backend) -> CallAnswer:
    """Run one call to its end; whatever goes wrong becomes an error on the wire."""
    started = time.perf_counter()
    deps = backend.deps_of(request, Meter(), needs=tool.needs, read_only=tool.effect is Effect.READ)
    try:
        outcome, replayed = await _run(tool, request, deps)
        receipt = Receipt(
            price=outcome.price,
            replayed=replayed or None,
            task=outcome.task or request.caller.task,
            notes=audit_facts(outcome.facts),
        )
        answer = CallAnswer(**_answered(tool, outcome.result), receipt=receipt)
    except Exception as error:  # noqa: BLE001 - the boundary: every error becomes an answer
        answer = _failed(error, request, tool)
    seconds = time.perf_counter() - started
    return answer.model_copy(update={"receipt": _metered(answer.receipt, deps, seconds)})


async def _run(tool: Tool[Any, Any], request: CallRequest, deps: Deps) -> tuple[Outcome[Any], bool]:
    """Run within the deadline, which the gateway took from the declaration or a setting.

    Returns:
        What the call came to, and whether it had been done before.
    """
    arguments = parse(tool.input, request.arguments, tool.name)
    seconds = request.deadline - time.time()
    if seconds <= 0:
        problem = f"{tool.name} was not run, as its time was up"
        raise outage(tool, request, problem, WriteState.NOTHING_DONE)
    try:
        async with asyncio.timeout(seconds) as time_limit:
            return await _once(tool, arguments, request, deps)
    except TimeoutError:
        if not time_limit.expired():
            raise
        problem = f"{tool.name} did not finish within {round(seconds, 1):g} s"
        raise outage(tool, request, problem, _write_state(deps)) from None
    except Unavailable as error:
        failure = explained(tool, request, error, _write_state(deps))
        failure.task, failure.facts = error.task, error.facts
        raise failure from error


def _write_state(deps: Deps) -> WriteState:
    """What became of a call that did not finish: where nothing was sent to be written, nothing."""
    return WriteState.UNKNOWN if deps.meter.commits else WriteState.NOTHING_DONE


async def _once(
    tool: Tool[Any, Any], arguments: Arguments, request: CallRequest, deps: Deps
) -> tuple[Outcome[Any], bool]:
    """Run the handler, or answer as the first time."""
    guard = idempotency_guard(deps.database, deps.clock, tool.output, arguments, request)
    try:
        if guard:
            await guard.refuse_repetition()
        outcome = as_outcome(await tool.run(arguments, replace(deps, idempotency=guard)))
        if guard and guard.has_key and outcome.repeatable and not guard.committed:
            await guard.commit([], outcome)  # there was nothing to change
    except AlreadyCompleted as completed:
        result = tool.output.model_validate_json(completed.replay.result)
        return Outcome(result, price=completed.replay.price), True
    return outcome, False


def _answered(tool: Tool[Any, Any], result: Result) -> dict[str, Any]:
    """A result as it goes over the wire, and its wording where the tool has one."""
    text = tool.text(result) if tool.text else None
    return {"result": result.model_dump(mode="json", exclude_none=True), "text": text}


def _failed(error: Exception, request: CallRequest, tool: Tool[Any, Any]) -> CallAnswer:
    """The error as the caller may see it: of a fault of ours nothing but the call's id."""
    if isinstance(error, Unavailable):
        log.warning("unavailable", tool=tool.name, call_id=request.call_id, **describe(error))
    if not isinstance(error, ToolFailure):
        log.error("fault", tool=tool.name, call_id=request.call_id, **describe(error))
        answer = CallAnswer.failed(fault(tool.name, request.call_id))
        return answer.model_copy(update={"receipt": Receipt(task=request.caller.task)})
    receipt = Receipt(task=error.task or request.caller.task, notes=audit_facts(error.facts))
    return CallAnswer.failed(error).model_copy(update={"receipt": receipt})


def _metered(receipt: Receipt, deps: Deps, seconds: float) -> Receipt:
    """A receipt, and what the call has taken."""
    return receipt.model_copy(
        update={
            "documents_read": deps.meter.documents_read,
            "documents_written": deps.meter.documents_written,
            "round_trips": deps.meter.round_trips,
            "milliseconds": round(seconds * 1000, 1),
            "embedding_ms": deps.milliseconds.get("embedding"),
            "bm25_ms": deps.milliseconds.get("bm25"),
        }
    )
