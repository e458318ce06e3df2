"""A function gets what it declares to need, and no more: here as in the cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.core.caller import Caller, Tier
from shared.core.errors import PlatformFault
from shared.firestore.writes import put_if_unchanged
from shared.runtime.capabilities import Capability
from shared.runtime.invocation import invoke
from shared.runtime.job import Job, Report, run_job
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool
from tests.support.tool_calls import request_of

if TYPE_CHECKING:
    from shared.runtime.context import App, Context
    from shared.runtime.job import Budget

pytestmark = pytest.mark.anyio


class Nothing(Arguments):
    """Nothing."""


class Done(Result):
    """Nothing either."""


async def embed(_args: Nothing, ctx: Context) -> Done:
    """Ask for a vector."""
    await ctx.query_vector("bread")
    return Done()


async def write(_args: Nothing, ctx: Context) -> Done:
    """Write a document."""
    database = ctx.database
    seen = await database.get(database.document("notes", "one"))
    await database.commit([put_if_unchanged(seen, {"text": "milk"})])
    return Done()


def tool(run: Any, effect: Effect = Effect.READ, *capabilities: Capability) -> Tool[Any, Any]:
    return Tool(
        name="do_this",
        title="Do this",
        description="",
        input=Nothing,
        output=Done,
        run=run,
        effect=effect,
        tier=Tier.REGISTERED,
        capabilities=frozenset(capabilities),
    )


async def code_of(wanted: Tool[Any, Any], app: App) -> str | None:
    """The error's code that a call ends with; None if it ends well."""
    answer = await invoke(wanted, request_of(wanted, Caller.of("anna"), {}), app)
    return answer.error.code if answer.error else None


async def test_a_tool_embeds_only_if_it_says_so(app: App) -> None:
    assert "INTERNAL_ERROR" == await code_of(tool(embed), app)
    assert await code_of(tool(embed, Effect.READ, Capability.EMBEDDING), app) is None


async def test_a_tool_that_declares_to_read_cannot_write(app: App, ctx: Context) -> None:
    assert "INTERNAL_ERROR" == await code_of(tool(write), app)
    note = await ctx.database.get(ctx.database.document("notes", "one"))
    assert not note.exists
    assert await code_of(tool(write, Effect.WRITE), app) is None


async def test_a_job_asks_a_model_only_if_it_says_so(app: App) -> None:
    async def run(ctx: Context, _budget: Budget) -> Report:
        return Report(note=str(ctx.generator))

    async def nothing(_context: Context) -> int:
        return 0

    job = Job(name="ask", title="Ask", run=run, total=nothing, schedule="")
    with pytest.raises(PlatformFault, match="does not declare that it needs: generation"):
        await run_job(job, app)
