"""The database `access`: credentials, accounts, calls, limits. Only the gateway and the owner."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from shared.core.meter import Meter
from shared.firestore.database import Database

if TYPE_CHECKING:
    from shared.accounts.repositories.accounts import Accounts
    from shared.accounts.repositories.calls import CallRecords
    from shared.accounts.repositories.clients import OAuthClients
    from shared.accounts.repositories.grants import OAuthGrants
    from shared.accounts.repositories.keys import AccessKeys
    from shared.accounts.repositories.limits import Limits
    from shared.firestore.database import Connection

REQUEST_SECONDS: Final = 5.0
"""How long a call waits to hear of its caller: the tool comes after that."""


class AccessStore:
    """The collections; the code of one is imported when it is used."""

    def __init__(self, connection: Connection, meter: Meter | None = None) -> None:
        """Use this connection, and count in `meter`."""
        self.database = Database(connection, meter or Meter(), REQUEST_SECONDS)

    @cached_property
    def accounts(self) -> Accounts:
        """What users have, may spend and have spent."""
        from shared.accounts.repositories.accounts import Accounts

        return Accounts(self.database)

    @cached_property
    def calls(self) -> CallRecords:
        """Records of calls that wrote or cost something."""
        from shared.accounts.repositories.calls import CallRecords

        return CallRecords(self.database)

    @cached_property
    def limits(self) -> Limits:
        """How often callers may call."""
        from shared.accounts.repositories.limits import Limits

        return Limits(self.database)

    @cached_property
    def keys(self) -> AccessKeys:
        """Access keys."""
        from shared.accounts.repositories.keys import AccessKeys

        return AccessKeys(self.database)

    @cached_property
    def clients(self) -> OAuthClients:
        """Programs that registered for sign-in."""
        from shared.accounts.repositories.clients import OAuthClients

        return OAuthClients(self.database)

    @cached_property
    def grants(self) -> OAuthGrants:
        """What people allowed such programs."""
        from shared.accounts.repositories.grants import OAuthGrants

        return OAuthGrants(self.database)
