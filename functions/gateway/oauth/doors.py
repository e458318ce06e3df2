"""Where clients and people sign in: every path of it, put together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from functions.gateway.auth.public_url import issuer_of
from functions.gateway.oauth.approval import Approvals
from functions.gateway.oauth.client_documents import ClientDocuments
from functions.gateway.oauth.consent import Consent
from functions.gateway.oauth.google import Google
from functions.gateway.oauth.routes import routes
from functions.gateway.rate_limits import LOGINS, REGISTRATIONS

if TYPE_CHECKING:
    from starlette.routing import Route

    from functions.gateway.access import Access
    from shared.accounts.grant import Proof


def doors(access: Access) -> list[Route]:
    """The endpoints of programs, and the pages of people."""
    settings, keyring, clock = access.settings, access.keyring, access.clock
    google = Google(settings, keyring, clock) if settings.google_client_id else None
    consent = Consent(
        settings=settings,
        keyring=keyring,
        callers=access.callers,
        approvals=Approvals(keyring, access.connection, issuer_of(settings), clock),
        clock=clock,
        login_limit=partial(access.limits.take_for, LOGINS),
        google=google,
    )
    still_allowed = google.still_allowed if google else _nobody
    registering = partial(access.limits.take_for, REGISTRATIONS)
    return [
        *routes(access, ClientDocuments(clock=clock), still_allowed, registering),
        *consent.routes(),
    ]


def _nobody(_proof: Proof) -> bool:
    """Where there is no sign-in with Google, nobody stays signed in by it."""
    return False
