"""A function may use the capabilities that it declares, and no others."""

from typing import Any

import pytest

from shared.core.caller import Caller, Tier
from shared.core.errors import PlatformFault
from shared.firestore.documents import Reference
from shared.firestore.writes import put_if_unchanged
from shared.runtime.capabilities import Capability
from shared.runtime.context import App, Context
from shared.runtime.invocation import invoke
from shared.runtime.job import Budget, Report, run_job
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool
from tests.support.jobs import make_job
from tests.support.tool_calls import make_call_request


class In(Arguments):
    """No arguments."""


class Out(Result):
    """An empty result."""


async def embed(_args: In, ctx: Context) -> Out:
    await ctx.embed_query("bread")
    return Out()


async def write(_args: In, ctx: Context) -> Out:
    database = ctx.database
    snapshot = await database.get(Reference("notes", "one"))
    await database.commit([put_if_unchanged(snapshot, {"text": "milk"})])
    return Out()


def make_tool(run: Any, effect: Effect = Effect.READ, *capabilities: Capability) -> Tool[Any, Any]:
    return Tool(
        name="do_this",
        title="Do this",
        description="",
        input=In,
        output=Out,
        run=run,
        effect=effect,
        tier=Tier.REGISTERED,
        capabilities=frozenset(capabilities),
    )


async def read_error_code(tool: Tool[Any, Any], app: App) -> str | None:
    """Call a tool, and return the code of its error; None if it succeeds."""
    answer = await invoke(tool, make_call_request(tool, Caller.of("anna"), {}), app)
    return answer.error.code if answer.error else None


async def test_a_tool_embeds_only_if_it_declares_it(app: App) -> None:
    assert await read_error_code(make_tool(embed), app) == "INTERNAL_ERROR"
    assert await read_error_code(make_tool(embed, Effect.READ, Capability.EMBEDDING), app) is None


async def test_a_tool_that_declares_read_cannot_write(app: App, ctx: Context) -> None:
    assert await read_error_code(make_tool(write), app) == "INTERNAL_ERROR"
    note = await ctx.database.get(Reference("notes", "one"))
    assert not note.exists
    assert await read_error_code(make_tool(write, Effect.WRITE), app) is None


async def test_a_job_uses_a_model_only_if_it_declares_it(app: App) -> None:
    async def run(ctx: Context, _budget: Budget) -> Report:
        return Report(note=str(ctx.generator))

    with pytest.raises(PlatformFault, match="does not declare the capability generation"):
        await run_job(make_job(run), app)
