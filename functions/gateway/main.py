"""The Cloud Function of the gateway."""

from shared import cold_start  # isort: split

from functions.gateway.dispatch import HttpDispatcher
from functions.gateway.http import gateway
from shared.settings import Settings

_settings = Settings()
handle = gateway(_settings, HttpDispatcher(_settings.tool_urls))
cold_start.over()
