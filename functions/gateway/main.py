"""The Cloud Function of the gateway."""

from shared.core import cold_start  # isort: split

from functions.gateway.app import make_gateway
from functions.gateway.calls.dispatch import HttpDispatcher
from functions.gateway.catalog import Catalog
from shared.core.settings import Settings

_settings = Settings()
_catalog = Catalog.load().apply_settings(_settings)
handle = make_gateway(_settings, HttpDispatcher(_settings, names=_catalog.names), _catalog)
cold_start.end()
