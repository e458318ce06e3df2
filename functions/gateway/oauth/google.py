"""Sign-in with Google: the person proves there who they are, and we decide whether they may.

OpenID Connect's code flow with PKCE. Nothing is stored between going there and coming back: the
request travels in `state`, signed together with the mark of the browser that left, and the nonce
and the PKCE verifier are signatures of both, which nobody else can make.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from functions.gateway.auth.public_url import issuer_of
from functions.gateway.oauth.destination import source_of
from functions.gateway.oauth.google_endpoints import GoogleEndpoints
from functions.gateway.oauth.google_token import Person, read_id_token
from shared.accounts.grant import Proof
from shared.core.base64url import to_base64url
from shared.core.caller import checked_user
from shared.core.errors import Forbidden, Unauthorized

if TYPE_CHECKING:
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.core.settings import Settings

CALLBACK_PATH: Final = "/signin/google"
_STATE, _NONCE, _VERIFIER = "google state", "google nonce", "google verifier"


class Google:
    """Sends people to Google, and knows whom it sent back."""

    def __init__(
        self,
        settings: Settings,
        keyring: Keyring,
        clock: Clock,
        endpoints: GoogleEndpoints | None = None,
    ) -> None:
        """Ask Google nothing yet."""
        self._client_id = settings.google_client_id
        self._secret = settings.google_client_secret
        self._issuer = settings.google_issuer.rstrip("/")
        self._callback = issuer_of(settings) + CALLBACK_PATH
        self._emails = {each.lower() for each in settings.allowed_emails}
        self._domains = {each.lower() for each in settings.allowed_domains}
        self._keyring = keyring
        self._clock = clock
        self._endpoints = endpoints or GoogleEndpoints(self._issuer, clock)

    @property
    def source(self) -> str:
        """Where people are sent, as a content security policy names it."""
        return source_of(urlsplit(self._issuer))

    async def address(self, sealed: str, mark: str) -> str:
        """Where this browser goes to sign in.

        Args:
            sealed: The request that the person approves by that.
            mark: What tells the browser from others.

        Raises:
            Forbidden: Nobody may sign in.
            Unavailable: Google does not answer.
        """
        if not self._emails and not self._domains:
            raise Forbidden(
                "Nobody may sign in here yet. The owner of this server has to name people in"
                " ALLOWED_EMAILS, or a Google Workspace domain in ALLOWED_DOMAINS."
            )
        # Signed with the mark and new each time, it is good for one sign-in in one browser.
        state = self._state(secrets.token_urlsafe(16), sealed, mark)
        verifier = self._keyring.sign(_VERIFIER, f"{mark}.{state}")
        digest = hashlib.sha256(verifier.encode()).digest()
        question = {
            "client_id": self._client_id,
            "redirect_uri": self._callback,
            "response_type": "code",
            "scope": "openid email",
            "state": state,
            "nonce": self._keyring.sign(_NONCE, f"{mark}.{state}"),
            "code_challenge": to_base64url(digest),
            "code_challenge_method": "S256",
            "prompt": "select_account",
        }
        endpoint = (await self._endpoints.published()).authorization
        return f"{endpoint}?{urlencode(question)}"

    def request_in(self, state: str, mark: str) -> str:
        """The sealed request that this browser left with.

        Raises:
            Forbidden: It did not leave from here.
        """
        salt, _, rest = state.partition(".")
        signature, _, sealed = rest.partition(".")
        if not mark or not self._keyring.verifies(_STATE, f"{mark}.{salt}.{sealed}", signature):
            raise Forbidden(
                "This sign-in was begun in another browser. Start again from the program that sent"
                " you there."
            )
        return sealed

    async def proof(self, code: str, state: str, mark: str) -> Proof:
        """Who came back with this code, if they may sign in.

        Raises:
            Unauthorized: Google does not vouch for them.
            Forbidden: They are not on the list.
            InvalidInput: Their address cannot name a user.
            Unavailable: Google does not answer.
        """
        verifier = self._keyring.sign(_VERIFIER, f"{mark}.{state}")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self._client_id,
            "client_secret": self._secret.get_secret_value(),
            "redirect_uri": self._callback,
            "code_verifier": verifier,
        }
        person = await read_id_token(
            await self._endpoints.id_token(form),
            self._endpoints.key,
            issuer=self._issuer,
            client_id=self._client_id,
            now=self._clock(),
        )
        if not self._keyring.verifies(_NONCE, f"{mark}.{state}", person.nonce):
            raise Unauthorized("What Google sent about you is of another sign-in. Try again.")
        if not self._may_enter(person):
            raise Forbidden(
                f"{person.email} may not sign in here. Choose another account, or ask the owner of"
                " this server to add it."
            )
        return Proof(user_id=checked_user(person.email), kind="google", email=person.email)

    def still_allowed(self, proof: Proof) -> bool:
        """Whether somebody who signed in before would be let in again.

        The domain was Google's word at sign-in; here the address stands for it.
        """
        if proof.kind != "google" or not proof.email:
            return False
        return self._may_enter(Person(proof.email, proof.email.rpartition("@")[2], ""))

    def _may_enter(self, person: Person) -> bool:
        domain = person.email.rpartition("@")[2]
        return person.email in self._emails or (domain == person.domain and domain in self._domains)

    def _state(self, salt: str, sealed: str, mark: str) -> str:
        signature = self._keyring.sign(_STATE, f"{mark}.{salt}.{sealed}")
        return f"{salt}.{signature}.{sealed}"
