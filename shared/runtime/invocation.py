"""Runs one call of a tool: validates arguments, keeps the deadline, and makes the answer."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from shared.core import telemetry
from shared.core.errors import InvalidInput, ToolFailure, Unavailable, Unusable, make_internal_error
from shared.core.log import error_fields, log
from shared.core.meter import Meter
from shared.core.telemetry import SpanKind
from shared.runtime.idempotency import AlreadyCompleted, make_idempotency_guard
from shared.runtime.messages import CallAnswer, Receipt
from shared.runtime.outage_advice import WriteState, add_advice, make_outage_error
from shared.runtime.outcome import Outcome, to_outcome, validate_facts
from shared.runtime.tool import Effect, put_own_fields_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic_core import ErrorDetails

    from shared.core.caller import Caller
    from shared.runtime.context import App, Context
    from shared.runtime.messages import CallRequest
    from shared.runtime.schemas import Arguments, Result
    from shared.runtime.tool import Tool

    ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)

MAX_FIELDS_PER_OBJECT: Final = 100
"""The maximum number of fields of an object in the arguments."""
MAX_REPORTED_PROBLEMS: Final = 20
"""The maximum number of problems that an error reports. A hostile request can cause thousands."""
MAX_QUOTED_NAME: Final = 80
"""The maximum number of characters that an error quotes from a field's name."""


def parse_arguments(kind: type[ArgumentsT], arguments: dict[str, Any], name: str) -> ArgumentsT:
    """Validate the arguments of a call.

    Raises:
        InvalidInput: The arguments are not valid; `details` contains a message per invalid field.
    """
    try:
        # Strict validation of JSON rejects "5" and true for a number. Validation of Python objects
        # would reject strings for enums, too.
        return kind.model_validate_json(json.dumps(_convert_whole_floats(arguments)), strict=True)
    except _TooManyFields:
        message = f"an object has more than {MAX_FIELDS_PER_OBJECT} fields"
        raise make_argument_error(name, {"arguments": message}) from None
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        details = {
            format_field_path(problem["loc"]): _describe_problem(kind, name, problem)
            for problem in problems[:MAX_REPORTED_PROBLEMS]
        }
        raise make_argument_error(
            name, details, unreported_count=len(problems) - len(details)
        ) from None


class _TooManyFields(Exception):
    """An object in the arguments has so many fields that reporting them would be slow."""


def make_argument_error(
    name: str, details: dict[str, str], unreported_count: int = 0
) -> InvalidInput:
    """Make the error for invalid arguments of the tool `name`."""
    problems = "; ".join(f"{field}: {message}" for field, message in details.items())
    if unreported_count:
        problems += f"; and {unreported_count} more"
    message = f"{name} was not run. {problems}. Correct this and call {name} again."
    return InvalidInput(message, details=details)


def _convert_whole_floats(value: Any) -> Any:
    """Convert whole floats to ints: JSON has only one number type, and some clients send 5.0."""
    match value:
        case dict() if len(value) > MAX_FIELDS_PER_OBJECT:
            raise _TooManyFields
        case dict():
            return {name: _convert_whole_floats(item) for name, item in value.items()}
        case list():
            return [_convert_whole_floats(item) for item in value]
        case float() if value.is_integer():
            return int(value)
    return value


def _describe_problem(kind: type[BaseModel], name: str, problem: ErrorDetails) -> str:
    match problem["type"]:
        case "extra_forbidden":
            *path, unknown = problem["loc"]
            parent = ".".join(map(str, path)) or name
            parameters = ", ".join(_get_field_names(kind, path)) or "none"
            suggestion = _suggest_field(kind, str(unknown)[:MAX_QUOTED_NAME])
            return f"not a parameter; {suggestion}{parent} takes {parameters}"
        case "list_type":
            return f'{problem["msg"]}, such as ["a", "b"]'
        case "missing":
            return "required, but missing"
        case "string_pattern_mismatch":
            return "not of the right form: copy it from another answer"
        case _:
            return problem["msg"]


def _get_field_names(model: type[BaseModel], path: Sequence[int | str]) -> Iterable[str]:
    """Return the names of the fields that the object at a path in the arguments may have."""
    for name in path:
        if field := model.model_fields.get(str(name)):
            model = next(_iterate_models(field.annotation), model)
    return put_own_fields_first(model.model_fields)


def _suggest_field(model: type[BaseModel], unknown: str) -> str:
    """Return a clause that names the field most similar to an unknown one, at any level."""
    from shared.text.suggestions import find_nearest_names  # only errors need it

    paths: dict[str, str] = {}
    for path in _iterate_field_paths(model):
        paths.setdefault(path.rpartition(".")[2], path)
    nearest = find_nearest_names(unknown, list(paths), limit=1)
    return f"did you mean {paths[nearest[0]]}? " if nearest else ""


def _iterate_field_paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the dotted paths of all fields, those of each level before those within them."""
    for name in model.model_fields:
        yield prefix + name
    for name, field in model.model_fields.items():
        for part in _iterate_models(field.annotation):
            yield from _iterate_field_paths(part, f"{prefix}{name}.")


def _iterate_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation, such as `Filter` in `list[Filter] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _iterate_models(part)


def format_field_path(location: Sequence[int | str]) -> str:
    """Return the dotted path of a field, for errors, from pydantic's location."""
    return ".".join(str(part)[:MAX_QUOTED_NAME] for part in location) or "arguments"


async def invoke(tool: Tool[Any, Any], request: CallRequest, app: App) -> CallAnswer:
    """Run one call, and return its answer. Every exception becomes an error in the answer."""
    attributes = {"gen_ai.tool.name": tool.name}
    with telemetry.span(tool.name, attributes, kind=SpanKind.SERVER) as span:
        answer = await _invoke(tool, request, app)
        if answer.error:
            span.fail(answer.error.code)
    return answer


async def _invoke(tool: Tool[Any, Any], request: CallRequest, app: App) -> CallAnswer:
    start = time.perf_counter()
    ctx = app.call_context(
        request, Meter(), capabilities=tool.capabilities, read_only=tool.effect is Effect.READ
    )
    task = request.caller.task
    try:
        arguments = parse_arguments(tool.input, request.arguments, tool.name)
        task = _find_task(tool, arguments, request.caller)
        outcome, is_replay = await _run(tool, arguments, request, ctx)
        facts = validate_facts(outcome.facts)
        receipt = Receipt(price=outcome.price, replayed=is_replay or None, notes=facts)
        answer = CallAnswer(**_build_success_fields(tool, outcome.result), receipt=receipt)
    except Exception as error:  # noqa: BLE001 - the boundary: every error becomes an answer
        answer = _make_failure_answer(error, request, tool)
    seconds = time.perf_counter() - start
    receipt = answer.receipt.model_copy(update=_collect_measurements(ctx, seconds) | {"task": task})
    return answer.model_copy(update={"receipt": receipt})


def _find_task(tool: Tool[Any, Any], arguments: Arguments, caller: Caller) -> str | None:
    """Return the task in which the call works.

    If the arguments contain an invalid name, return the credential's task: the handler rejects the
    name.
    """
    try:
        return tool.task(arguments, caller) if tool.task else caller.task
    except InvalidInput:
        return caller.task


async def _run(
    tool: Tool[Any, Any], arguments: Arguments, request: CallRequest, ctx: Context
) -> tuple[Outcome[Any], bool]:
    """Run the call within its deadline, which the gateway sets.

    Returns:
        The outcome, and whether it is a replay of an earlier call.
    """
    seconds = request.deadline - time.time()
    if seconds <= 0:
        problem = f"{tool.name} was not run: no time was left"
        raise make_outage_error(tool, request, problem, WriteState.NOTHING_DONE)
    try:
        async with asyncio.timeout(seconds) as time_limit:
            return await _run_or_replay(tool, arguments, request, ctx)
    except TimeoutError:
        if not time_limit.expired():
            raise
        problem = f"{tool.name} did not finish within {round(seconds, 1):g} s"
        raise make_outage_error(tool, request, problem, _get_write_state(ctx)) from None
    except Unusable:
        raise  # its message says what to mend, and calling again does not help
    except Unavailable as error:
        failure = add_advice(tool, request, error, _get_write_state(ctx))
        failure.facts = error.facts
        raise failure from error


def _get_write_state(ctx: Context) -> WriteState:
    """Return UNKNOWN if the failed call has sent a commit, and NOTHING_DONE otherwise."""
    return WriteState.UNKNOWN if ctx.meter.commits else WriteState.NOTHING_DONE


async def _run_or_replay(
    tool: Tool[Any, Any], arguments: Arguments, request: CallRequest, ctx: Context
) -> tuple[Outcome[Any], bool]:
    """Run the handler, or replay the stored outcome of the first call."""
    guard = make_idempotency_guard(ctx.database, ctx.clock, tool.output, arguments, request)
    try:
        if guard:
            await guard.raise_if_completed()
        context = replace(ctx, idempotency=guard) if guard else ctx
        outcome = to_outcome(await tool.run(arguments, context))
        if guard and guard.has_key and outcome.replayable and not guard.committed:
            await guard.commit([], outcome)  # The handler had nothing to write: store the answer.
    except AlreadyCompleted as completed:
        result = tool.output.model_validate_json(completed.record.result or "")
        return Outcome(result, price=completed.record.price), True
    return outcome, False


def _build_success_fields(tool: Tool[Any, Any], result: Result) -> dict[str, Any]:
    """Return the answer's fields for the result, as JSON and, if the tool writes one, as text."""
    message = tool.message(result) if tool.message else None
    return {
        "result": result.to_json() | ({"message": message} if message else {}),
        "text": tool.text(result) if tool.text else None,
    }


def _make_failure_answer(
    error: Exception, request: CallRequest, tool: Tool[Any, Any]
) -> CallAnswer:
    """Make the answer for an error. The answer to an internal fault reveals only the call id."""
    if isinstance(error, Unavailable):
        log.warning("unavailable", tool=tool.name, call_id=request.call_id, **error_fields(error))
    if isinstance(error, ToolFailure):
        answer = CallAnswer.failed(error)
        try:
            receipt = Receipt(notes=validate_facts(error.facts))
        except (TypeError, ValueError) as invalid:
            # The caller still gets the error; facts that might contain content are dropped.
            log.error(
                "facts_refused", tool=tool.name, call_id=request.call_id, **error_fields(invalid)
            )
            return answer
        return answer.model_copy(update={"receipt": receipt})
    log.error("fault", tool=tool.name, call_id=request.call_id, **error_fields(error))
    return CallAnswer.failed(make_internal_error(tool.name, request.call_id))


def _collect_measurements(ctx: Context, seconds: float) -> dict[str, Any]:
    """Return the measured fields of a receipt."""
    return {
        "documents_read": ctx.meter.documents_read,
        "documents_written": ctx.meter.documents_written,
        "round_trips": ctx.meter.round_trips,
        "milliseconds": round(seconds * 1000, 1),
        "embedding_ms": ctx.milliseconds.get("embedding"),
        "bm25_ms": ctx.milliseconds.get("bm25"),
    }
