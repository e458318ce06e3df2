"""The gateway on this machine, with all tools in its own process or each in a separate one."""

import os

from shared.core import cold_start  # isort: split

from functions.gateway.app import make_gateway
from functions.gateway.calls.dispatch import HttpDispatcher
from functions.gateway.catalog import Catalog
from infra.local.inline import InlineDispatcher
from infra.local.link_fetching import LinkFetcher, LinkFetchingDispatcher
from infra.local.local_database import open_local_database, use_local_database
from infra.local.tool_processes import SENT_SECRET, SharedSecretTokens
from infra.local.warm_up import start_warm_up
from shared.core.settings import Settings
from shared.runtime.context import App

use_local_database()
if not os.environ.get("FIRESTORE_EMULATOR_HOST"):  # an emulator that is down may come back
    open_local_database()
_settings = Settings()
_catalog = Catalog.load().apply_settings(_settings)
_secret = os.environ.pop(SENT_SECRET, None)
_app = App(_settings)
_dispatcher = LinkFetchingDispatcher(
    HttpDispatcher(_settings, SharedSecretTokens(_secret), _catalog.names)
    if _secret
    else InlineDispatcher(_app),
    LinkFetcher(_app),
)
handle = make_gateway(_settings, _dispatcher, _catalog)
if _secret:
    cold_start.end()
else:
    start_warm_up(_app)
