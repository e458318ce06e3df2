"""The MCP server over standard input and output, for clients that start it themselves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcp.server.stdio import stdio_server

from functions.gateway.access import Access
from functions.gateway.auth.visitor import LOCAL_USER, Visitor
from functions.gateway.catalog import Catalog
from functions.gateway.mcp.server import build_server
from infra.local.inline import InlineDispatcher
from infra.local.scheduler import Scheduler, WakingDispatcher
from infra.local.warm_up import load_multilingual_model, start_warm_up
from shared.core import telemetry
from shared.core.caller import Caller, Role
from shared.runtime.context import App

if TYPE_CHECKING:
    from shared.core.settings import Settings


async def serve_stdio(settings: Settings) -> None:
    """Serve one client until it closes the standard input of this process."""
    telemetry.start(settings, "gateway")
    app, access = App(settings), Access(settings)
    catalog = Catalog.load().apply_settings(settings)
    catalog = catalog.select(catalog.list_default_groups(settings))
    scheduler = Scheduler(app)
    calls = access.make_pipeline(WakingDispatcher(InlineDispatcher(app)))
    owner = Visitor(Caller.of(LOCAL_USER, role=Role.OWNER), rate_limit_key=None)
    server = build_server(catalog, calls, local_visitor=owner)
    try:
        async with stdio_server() as (incoming, outgoing), asyncio.TaskGroup() as tasks:
            start_warm_up(app)
            tasks.create_task(load_multilingual_model(app))
            scheduler.start()
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await scheduler.aclose()
        await app.aclose()
        await access.aclose()
