"""The texts that programs show: codes, refresh tokens, client ids and secrets.

None of them is stored, not even hashed: each is a signature by the deployment's keyring over what
is no secret. So a stolen database opens nothing, and what was forged, cut or given to somebody else
is told without a look into it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shared.accounts.keyring import Keyring

_CODE: Final = "authorization code"
_REFRESH: Final = "refresh token"
_CLIENT: Final = "client id"
_SECRET: Final = "client secret"  # noqa: S105 - what is signed for, and no secret
_CHECK_LENGTH: Final = 8
_CODE_FORM: Final = re.compile(r"([0-9a-f]{32})\.([A-Za-z0-9_-]{43})")
_REFRESH_FORM: Final = re.compile(r"([0-9a-f]{32})\.([1-9][0-9]{0,8})\.([A-Za-z0-9_-]{43})")
_CLIENT_FORM: Final = re.compile(r"([0-9a-f-]{36})\.([A-Za-z0-9_-]{8})")


def code_of(keyring: Keyring, grant_id: str, client_id: str) -> str:
    """The code of a grant, for the program that it was given to."""
    return f"{grant_id}.{keyring.sign(_CODE, f'{grant_id}.{client_id}')}"


def grant_of_code(keyring: Keyring, code: str, client_id: str) -> str | None:
    """The id of the grant whose code this is; None if we did not make it for this program."""
    form = _CODE_FORM.fullmatch(code)
    known = form and keyring.verifies(_CODE, f"{form[1]}.{client_id}", form[2])
    return form[1] if form and known else None


def refresh_token_of(keyring: Keyring, grant_id: str, generation: int, client_id: str) -> str:
    """The refresh token of a grant's generation, for the program that it was given to."""
    signature = keyring.sign(_REFRESH, f"{grant_id}.{generation}.{client_id}")
    return f"{grant_id}.{generation}.{signature}"


def grant_of_refresh_token(keyring: Keyring, token: str, client_id: str) -> tuple[str, int] | None:
    """The grant's id and the generation; None if we did not make it for this program."""
    form = _REFRESH_FORM.fullmatch(token)
    known = form and keyring.verifies(_REFRESH, f"{form[1]}.{form[2]}.{client_id}", form[3])
    return (form[1], int(form[2])) if form and known else None


def client_id_of(keyring: Keyring, name: str) -> str:
    """The id of a program that registers: a random UUID, checked by a signature."""
    return f"{name}.{keyring.sign(_CLIENT, name)[:_CHECK_LENGTH]}"


def is_client_id(keyring: Keyring, client_id: str) -> bool:
    """Whether we may have given this id to a program."""
    form = _CLIENT_FORM.fullmatch(client_id)
    return bool(form and keyring.verifies(_CLIENT, form[1], form[2], length=_CHECK_LENGTH))


def client_secret_of(keyring: Keyring, client_id: str) -> str:
    """The secret of a program that registered."""
    return keyring.sign(_SECRET, client_id)


def with_newest_secret(keyring: Keyring, parameters: dict[str, str]) -> dict[str, str]:
    """The parameters of a request, whose client secret, if it holds, is as one of today.

    The SDK compares secrets with the one that it is given; but while the keyring's secrets rotate,
    older ones hold too.
    """
    client_id, secret = parameters.get("client_id", ""), parameters.get("client_secret", "")
    if not keyring.verifies(_SECRET, client_id, secret):
        return parameters
    return {**parameters, "client_secret": client_secret_of(keyring, client_id)}
