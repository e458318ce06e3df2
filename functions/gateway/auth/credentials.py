"""What a request shows to prove who sends it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.accounts.access_key import PREFIX
from shared.core.errors import Unauthorized

if TYPE_CHECKING:
    from starlette.datastructures import Headers

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_HOW: Final = "Send `Authorization: Bearer <token or key>`, or `X-API-Key: <key>`."


@dataclass(frozen=True, slots=True)
class Credential:
    """A key or an access token, not verified yet.

    Attributes:
        text: As it was sent.
        identity: What stands before the `@` of a key: it names a task, not a person.
    """

    text: str
    identity: str | None = None

    @property
    def is_key(self) -> bool:
        """Whether it is an access key, and no token."""
        return self.text.startswith(PREFIX)


def credential_in(headers: Headers) -> Credential | None:
    """The credential of a request; None where it has none.

    Raises:
        Unauthorized: There are several, or what there is has no known form.
    """
    authorizations, keys = headers.getlist("authorization"), headers.getlist("x-api-key")
    if not authorizations and not keys:
        return None
    if len(authorizations) + len(keys) > 1:
        raise Unauthorized(f"There is more than one credential. {_HOW}")
    text = keys[0].strip() if keys else _bearer(authorizations[0])
    identity, at, key = text.rpartition("@")
    found = Credential(key, identity) if at and key.startswith(PREFIX) else Credential(text)
    if not _TOKEN.fullmatch(text) or (keys and not found.is_key) or (at and not identity):
        raise Unauthorized(f"This is no credential of Carrel's. {_HOW}")
    return found


def _bearer(header: str) -> str:
    scheme, _, text = header.strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized(f"This is no credential of Carrel's. {_HOW}")
    return text.strip()
