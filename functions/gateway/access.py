"""The gateway's composition root: settings become who may call, how often and for how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.gateway.auth.access_tokens import AccessTokens
from functions.gateway.auth.callers import Callers
from functions.gateway.auth.public_url import issuer_of, resource_of
from functions.gateway.calls.billing import LedgerBilling
from functions.gateway.calls.external_billing import ExternalBilling
from functions.gateway.calls.pipeline import Calls
from functions.gateway.rate_limits import CallLimits
from shared.accounts.keyring import Keyring
from shared.core.dates import utc_now
from shared.firestore.database import Connection

if TYPE_CHECKING:
    from functions.gateway.calls.billing import Billing
    from functions.gateway.calls.dispatch import Dispatcher
    from shared.core.dates import Clock
    from shared.core.settings import Settings


class Access:
    """What decides about callers. Opens nothing before it is used.

    Attributes:
        settings: What was configured.
        clock: What time it is.
        connection: The database of credentials, accounts, calls and limits.
        keyring: What only this deployment knows.
        tokens: Makes and verifies access tokens.
        callers: Verifies credentials.
        limits: How often callers may call, sign in and register.
        billing: Who charges for calls.
    """

    def __init__(self, settings: Settings, clock: Clock = utc_now) -> None:
        """Read the settings.

        Raises:
            InvalidInput: There are no secrets.
        """
        self.settings = settings
        self.clock = clock
        self.connection = Connection(settings.google_cloud_project, settings.access_database)
        self.keyring = Keyring(settings.access_secrets)
        issuer, resource = issuer_of(settings), resource_of(settings)
        self.tokens = AccessTokens(self.keyring, issuer, resource, clock)
        self.callers = Callers(settings, self.keyring, self.tokens, self.connection, clock)
        self.limits = CallLimits(settings, self.connection, clock)
        self.billing = self._billing()

    def calls(self, dispatcher: Dispatcher) -> Calls:
        """Calls to tools through this dispatcher, limited and paid."""
        return Calls(dispatcher, self.limits, self.billing, self.clock, self.keyring)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.billing.aclose()
        await self.connection.aclose()

    def _billing(self) -> Billing:
        url, token = self.settings.billing_url, self.settings.billing_token
        if url is None:
            return LedgerBilling(self.connection, self.clock)
        return ExternalBilling(url, token, self.connection, self.clock)
