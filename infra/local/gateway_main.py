"""The gateway on this machine, with all tools in its own process or each in a separate one."""

from __future__ import annotations

import os
import shutil
from functools import partial
from typing import TYPE_CHECKING

from shared.core import cold_start  # isort: split

from functions.gateway.app import make_gateway
from functions.gateway.calls.dispatch import HttpDispatcher
from functions.gateway.catalog import Catalog
from functions.gateway.console.local_services import LocalServices
from infra.export.archive import stream_export
from infra.local.inline import InlineDispatcher
from infra.local.local_database import STATE, open_local_database, use_local_database
from infra.local.processes import RUNS_JOBS
from infra.local.scheduler import Scheduler, WakingDispatcher
from infra.local.tool_processes import SENT_SECRET, SharedSecretTokens
from infra.local.uploads import LocalUploads
from infra.local.warm_up import start_warm_up
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.followed import find_followed_file
from shared.runtime.context import App

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

use_local_database()
if not os.environ.get("FIRESTORE_EMULATOR_HOST"):  # an emulator that is down may come back
    open_local_database()
_settings = Settings()
_catalog = Catalog.load().apply_settings(_settings)
_secret = os.environ.pop(SENT_SECRET, None)
_app = App(_settings)
_scheduler = Scheduler(_app)
_exports = STATE / "exports"
shutil.rmtree(_exports, ignore_errors=True)  # a process that was killed leaves files there
_dispatcher = WakingDispatcher(
    HttpDispatcher(_settings, SharedSecretTokens(_secret), _catalog.names)
    if _secret
    else InlineDispatcher(_app)
)
_local = LocalServices(
    LocalUploads(),
    partial(find_followed_file, database=_app.context(Caller(), Meter()).database),
    partial(stream_export, _app, _exports),
)
_gateway = make_gateway(_settings, _dispatcher, _catalog, _local)


async def handle(request: Request) -> ASGIApp:
    """Answer a request. With the first one, which `carrel up` sends, jobs begin to run."""
    if RUNS_JOBS in os.environ:
        _scheduler.start()
    return await _gateway(request)


if _secret:
    cold_start.end()
else:
    start_warm_up(_app)
