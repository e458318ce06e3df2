"""The page of a visitor's own account: keys, connected programs and usage."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from functions.gateway.console.visits import Notice
from functions.gateway.oauth.authorization import CONSOLE_CLIENT_ID
from functions.gateway.oauth.clients import is_document_url
from functions.gateway.oauth.consent_page import sanitize_name
from shared.accounts.account import format_dollars
from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.repositories.revocation import revoke_key
from shared.core.caller import Scope, list_grantable
from shared.core.dates import DateSpan, load_time_zone
from shared.core.errors import Forbidden, InvalidInput, NotFound, Unauthorized
from shared.core.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from starlette.responses import Response

    from functions.gateway.access import Access
    from functions.gateway.console.visits import Visit
    from shared.accounts.grant import Grant

USAGE_DAYS: Final = 30
"""The chart of usage shows this many days."""
FOREVER: Final = "forever"
LIFETIMES: Final = {"90": "90 days", "365": "a year", FOREVER: "until it is revoked"}
"""The days for which a new key may be valid, as the form sends them, and their labels."""
SHOWN_CALLS: Final = 20
"""The list of calls has this many."""
MAX_BAR_HEIGHT: Final = 60
"""The height of the highest bar in the chart, in the units of its SVG."""
VISIBLE_HEIGHT: Final = 2
"""The height of the bar of a few calls, which would be invisible next to many."""


@dataclass(frozen=True, slots=True)
class Bar:
    """The calls of a day.

    Attributes:
        height: The height of the bar: 0 without calls, at most MAX_BAR_HEIGHT.
    """

    day: date
    count: int
    height: int


@dataclass(frozen=True, slots=True)
class ConnectedProgram:
    """A program that the visitor signed in.

    Attributes:
        is_this_browser: Whether it is the console in this browser.
    """

    grant: Grant
    name: str
    is_this_browser: bool


class AccountPage:
    """The page of a signed-in visitor's own account."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def show(self, visit: Visit) -> Response:
        """Show the keys, the programs and the usage. Costs two round trips."""
        user_id = require_signed_in(visit)
        meter = Meter()
        store = AccessStore(self._access.connection, meter)
        now = self._access.clock()
        zone = load_time_zone(self._access.settings.time_zone)
        today = now.astimezone(zone).date()
        days = [today - timedelta(days=ago) for ago in reversed(range(USAGE_DAYS))]
        keys, grants, account, counts, calls = await asyncio.gather(
            store.keys.list_keys(user_id),
            store.grants.find_active("user_id", user_id),
            store.accounts.get(user_id),
            store.calls.count_by_day(user_id, [DateSpan(day, day, zone) for day in days]),
            store.calls.list_newest(user_id, SHOWN_CALLS),
        )
        # A grant of generation 0 is a sign-in whose code is not exchanged yet.
        valid_grants = [grant for grant in grants if grant.is_valid(now) and grant.generation]
        programs = await self._find_programs(valid_grants, visit, store)
        visit.documents_read += meter.documents_read
        return visit.render(
            "account.html",
            user_id=user_id,
            zone=zone,
            keys=[key for key in keys if key.is_valid(now)],
            programs=sorted(programs, key=lambda program: program.grant.created_at, reverse=True),
            bars=_make_bars(days, counts),
            total=sum(counts),
            calls=calls,
            balance=format_dollars(account.balance) if account.balance else None,
            all_scopes=list(Scope),
            own_scopes=[scope for scope in Scope if scope in list_allowed_scopes(visit)],
            lifetimes=LIFETIMES,
            may_change=Scope.WRITE in visit.caller.scopes,
        )

    async def change(self, visit: Visit, fields: dict[str, str]) -> Response:
        """Revoke a key or a sign-in of the visitor, and show the page again.

        Raises:
            Unauthorized: The visitor has not signed in.
            Forbidden: The session may not write.
            NotFound: The visitor has no such key or sign-in.
            InvalidInput: The form is not one of this page.
        """
        user_id = require_signed_in(visit)
        require_write(visit)
        store = AccessStore(self._access.connection)
        match fields.get("action"):
            case "revoke_key":
                visit.notice = await _revoke_key(store, user_id, fields.get("key_id", ""))
            case "end_grant":
                visit.notice = await self._end_grant(store, user_id, fields.get("grant_id", ""))
            case _:
                raise InvalidInput("Press one of the buttons of the page.")
        return await self.show(visit)

    async def _end_grant(self, store: AccessStore, user_id: str, grant_id: str) -> Notice:
        grants = await store.grants.find_active("user_id", user_id)
        if grant_id not in [grant.grant_id for grant in grants]:
            raise NotFound("You have no such program. It may be disconnected already.")
        now = self._access.clock()
        await store.grants.change(grant_id, lambda grant: grant.end(now))
        return Notice("Disconnected. The program has no access any more.")

    async def _find_programs(
        self, grants: Sequence[Grant], visit: Visit, store: AccessStore
    ) -> list[ConnectedProgram]:
        """Return the programs of grants. Reads the names of those that registered themselves."""
        client_ids = {grant.client_id for grant in grants}
        registered = [
            client_id
            for client_id in client_ids
            if client_id != CONSOLE_CLIENT_ID and not is_document_url(client_id)
        ]
        clients = await asyncio.gather(*map(store.clients.get, registered))
        names = {client.client_id: client.name for client in clients if client}
        return [
            ConnectedProgram(
                grant,
                _name_program(grant.client_id, names.get(grant.client_id)),
                grant.grant_id == visit.session.grant_id,
            )
            for grant in grants
        ]


async def show_connecting(visit: Visit) -> Response:
    """Show how to connect clients to this server."""
    is_laptop = visit.session.grant_id is None and visit.caller.user_id is not None
    return visit.render("connect.html", is_laptop=is_laptop)


def require_signed_in(visit: Visit) -> str:
    """Return the id of the user who visits; on a laptop, that of the local user.

    Raises:
        Unauthorized: The visitor has not signed in.
    """
    if visit.caller.user_id:
        return visit.caller.user_id
    raise Unauthorized("Sign in to see your keys and programs.")


def list_allowed_scopes(visit: Visit) -> frozenset[Scope]:
    """Return the scopes of the keys that a visitor may make: on a laptop, save-only ones."""
    if visit.session.grant_id is None:
        return frozenset({Scope.SAVE})
    return list_grantable(visit.caller.scopes)


def require_write(visit: Visit) -> None:
    """Check that the visitor's session may write.

    Raises:
        Forbidden: The session may only read.
    """
    if Scope.WRITE not in visit.caller.scopes:
        raise Forbidden("This session may only read: the key that started it has no more.")


async def _revoke_key(store: AccessStore, user_id: str, key_id: str) -> Notice:
    keys = await store.keys.list_keys(user_id)
    if key_id not in [key.key_id for key in keys]:
        raise NotFound("You have no such key.")
    key, count = await revoke_key(store, key_id)
    return Notice(f"Revoked the key “{key.name}”. {_describe_disconnected(count)}")


def _describe_disconnected(count: int) -> str:
    match count:
        case 0:
            return "No program had signed in with it."
        case 1:
            return "The program that had signed in with it is disconnected."
        case _:
            return f"The {count} programs that had signed in with it are disconnected."


def _name_program(client_id: str, registered_name: str | None) -> str:
    if client_id == CONSOLE_CLIENT_ID:
        return "The console"
    if is_document_url(client_id):
        return urlsplit(client_id).hostname or client_id
    return sanitize_name(registered_name or "") or "An unnamed program"


def _make_bars(days: Sequence[date], counts: Sequence[int]) -> list[Bar]:
    max_count = max([*counts, 1])
    return [
        Bar(day, count, max(round(count / max_count * MAX_BAR_HEIGHT), min(count, VISIBLE_HEIGHT)))
        for day, count in zip(days, counts, strict=True)
    ]
