"""One call of a tool: parse, run within the deadline, map errors. No HTTP and no MCP."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from shared.call import CallAnswer, Receipt
from shared.core.errors import ToolFailure, Unavailable, fault
from shared.core.log import describe, log
from shared.firestore.database import Meter
from shared.once import Replayed, once
from shared.outages import Outcome, explained, outage
from shared.parsing import parse
from shared.tool import Effect

if TYPE_CHECKING:
    from shared.call import CallRequest
    from shared.deps import Backend, Deps
    from shared.tool import Arguments, Result, Tool


async def call(tool: Tool[Any, Any], request: CallRequest, backend: Backend) -> CallAnswer:
    """Run one call to its end; whatever goes wrong becomes an error on the wire."""
    meter = Meter()
    deps = backend.deps_of(request, meter)
    deps.needs, deps.read_only = tool.needs, tool.effect is Effect.READ
    started = time.perf_counter()
    try:
        outcome = _answered(tool, await _run(tool, request, deps))
    except Exception as error:  # noqa: BLE001 - the boundary: every error becomes an answer
        outcome = {"error": _told(error, request, tool)}
    milliseconds = round((time.perf_counter() - started) * 1000, 1)
    return CallAnswer(**outcome, receipt=_receipt(deps, meter, milliseconds))


async def _run(tool: Tool[Any, Any], request: CallRequest, deps: Deps) -> Result:
    """Run within the deadline, which the gateway took from the declaration or a setting."""
    arguments = parse(tool.input, request.arguments, tool.name)
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
) -> Result:
    """Run the handler, or answer as the first time."""
    deps.once = once(tool.output, arguments, request, deps)
    try:
        if deps.once:
            await deps.once.refuse_repetition()
        result: Result = await tool.run(arguments, deps)
        if deps.once and deps.once.has_key and not deps.once.is_kept:  # there was nothing to change
            await deps.once.commit([], result)
    except Replayed as replayed:
        deps.price, deps.replayed = replayed.replay.price, True
        result = tool.output.model_validate_json(replayed.replay.result)
    return result


def _answered(tool: Tool[Any, Any], result: Result) -> dict[str, Any]:
    """A result as it goes over the wire, and its wording where the tool has one."""
    text = tool.text(result) if tool.text else None
    return {"result": result.model_dump(mode="json", exclude_none=True), "text": text}


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
        task=deps.task,
        notes=deps.notes,
    )
