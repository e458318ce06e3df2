"""The database `access`, with credentials, accounts, calls and limits.

Only the gateway and the owner may open the database. Repositories are imported late, to keep cold
starts short.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from shared.core.meter import Meter
from shared.firestore.database import Database

if TYPE_CHECKING:
    from shared.accounts.repositories.accounts import Accounts
    from shared.accounts.repositories.calls import CallRecords
    from shared.accounts.repositories.grants import OAuthClients, OAuthGrants
    from shared.accounts.repositories.keys import AccessKeys
    from shared.accounts.repositories.limits import Limits
    from shared.firestore.connection import Connection

READ_TIMEOUT_SECONDS: Final = 5.0
"""A request to this database fails after this long, because every call waits for one before its
tool runs."""


class AccessStore:
    """The repositories of the database `access`."""

    def __init__(self, connection: Connection, meter: Meter | None = None) -> None:
        """Use the connection to `access`, and count reads and writes in `meter`, if it is given."""
        self.database = Database(connection, meter or Meter(), READ_TIMEOUT_SECONDS)

    @cached_property
    def accounts(self) -> Accounts:
        """The accounts of users."""
        from shared.accounts.repositories.accounts import Accounts

        return Accounts(self.database)

    @cached_property
    def calls(self) -> CallRecords:
        """The records of calls that wrote or cost something."""
        from shared.accounts.repositories.calls import CallRecords

        return CallRecords(self.database)

    @cached_property
    def limits(self) -> Limits:
        """The token buckets of rate limits."""
        from shared.accounts.repositories.limits import Limits

        return Limits(self.database)

    @cached_property
    def keys(self) -> AccessKeys:
        """The access keys."""
        from shared.accounts.repositories.keys import AccessKeys

        return AccessKeys(self.database)

    @cached_property
    def clients(self) -> OAuthClients:
        """The registered programs."""
        from shared.accounts.repositories.grants import OAuthClients

        return OAuthClients(self.database)

    @cached_property
    def grants(self) -> OAuthGrants:
        """The grants that people gave programs."""
        from shared.accounts.repositories.grants import OAuthGrants

        return OAuthGrants(self.database)
