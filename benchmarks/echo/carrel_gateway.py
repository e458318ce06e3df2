"""The whole gateway, without sign-in, with one tool that returns its argument."""

from __future__ import annotations

from pydantic import Field

from functions.gateway.app import make_gateway
from functions.gateway.catalog import Catalog, Declaration
from infra.local.inline import InlineDispatcher
from shared.core.caller import Tier
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool


class EchoArguments(Arguments):
    """The arguments of `echo_text`."""

    text: str = Field(description="The text to return.")


class EchoResult(Result):
    """The result of `echo_text`."""

    text: str = Field(description="The same text.")


async def echo(args: EchoArguments, _context: Context) -> EchoResult:
    """Return the text."""
    return EchoResult(text=args.text)


_ECHO = Tool(
    name="echo_text",
    title="Echo",
    description="Returns its argument.",
    input=EchoArguments,
    output=EchoResult,
    run=echo,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
)
_settings = Settings()
_dispatcher = InlineDispatcher(App(_settings), [_ECHO])
handle = make_gateway(
    _settings, _dispatcher, Catalog([Declaration.model_validate(_ECHO.declaration())])
)
