"""The real gateway with the tools of the notebook instead of those of Carrel."""

from functions.gateway.app import make_gateway
from functions.gateway.catalog import Catalog, Declaration
from infra.local.inline import InlineDispatcher
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.notebook_tools import TOOLS

_settings = Settings()
_catalog = Catalog([Declaration.model_validate(tool.declaration()) for tool in TOOLS])
handle = make_gateway(_settings, InlineDispatcher(App(_settings), TOOLS), _catalog)
