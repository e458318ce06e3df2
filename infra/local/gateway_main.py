"""The gateway for a laptop: the same function, with the tools in its own process."""

from functions.gateway.app import gateway
from functions.gateway.catalog import Catalog
from infra.local.inline import InlineDispatcher
from shared.core.settings import Settings
from shared.runtime.context import Backend

_settings = Settings()
_catalog = Catalog.load().configured(_settings)
handle = gateway(_settings, InlineDispatcher(Backend(_settings)), _catalog)
