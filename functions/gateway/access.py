"""The services of the gateway that decide on access: credentials, rate limits and billing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.gateway.auth.access_tokens import AccessTokens
from functions.gateway.auth.callers import Callers
from functions.gateway.auth.public_url import get_issuer_url, get_resource_url
from functions.gateway.calls.billing import LedgerBilling
from functions.gateway.calls.external_billing import ExternalBilling
from functions.gateway.calls.pipeline import CallPipeline
from functions.gateway.rate_limits import CallLimits
from shared.accounts.keyring import Keyring
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.dates import utc_now
from shared.core.settings import ACCESS_DATABASE
from shared.firestore.connection import Connection

if TYPE_CHECKING:
    from functions.gateway.calls.billing import Billing
    from functions.gateway.calls.dispatch import Dispatcher
    from shared.core.dates import Clock
    from shared.core.settings import Settings


class Access:
    """The services that identify, limit and charge callers. Connections are opened on first use."""

    def __init__(self, settings: Settings, clock: Clock = utc_now) -> None:
        """Create the services from the settings.

        Raises:
            InvalidInput: ACCESS_SECRETS is not set.
        """
        self.settings = settings
        self.clock = clock
        self.connection = Connection(settings.google_cloud_project, ACCESS_DATABASE)
        self.keyring = Keyring(settings.access_secrets)
        issuer, resource = get_issuer_url(settings), get_resource_url(settings)
        self.tokens = AccessTokens(self.keyring, issuer, resource, clock)
        self.callers = Callers(settings, self.keyring, self.tokens, self.connection, clock)
        self.limits = CallLimits(settings, self.connection, clock)
        self.billing = self._make_billing()

    def make_pipeline(self, dispatcher: Dispatcher) -> CallPipeline:
        """Make the pipeline for tool calls, which this dispatcher sends."""
        return CallPipeline(dispatcher, self.limits, self.billing, self.clock, self.keyring)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.billing.aclose()
        await self.connection.aclose()

    def _make_billing(self) -> Billing:
        settings = self.settings
        if settings.billing_url is None:
            return LedgerBilling(self.connection, self.clock)
        return ExternalBilling(
            settings.billing_url,
            settings.billing_token,
            self.connection,
            self.clock,
            breaker=CircuitBreaker(
                "The billing service",
                failures=settings.circuit_failure_threshold,
                pause=settings.circuit_recovery_timeout,
            ),
        )
