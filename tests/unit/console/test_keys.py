"""If the console does not make a key, it gives the true reason and says what to do."""

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
from pydantic import SecretStr

from functions.gateway.console import keys
from functions.gateway.console.keys import REPEAT_WINDOW, KeyPages, RequestedKey
from shared.accounts.access_key import AccessKey
from shared.accounts.keyring import Keyring
from shared.core.caller import FULL_ACCESS
from shared.core.errors import Conflict, InvalidInput
from shared.firestore.database import WriteConflict

NOW = datetime(2026, 11, 27, tzinfo=UTC)
REQUESTED_KEY = RequestedKey("laptop", None, "a-nonce")
VISIT = SimpleNamespace(
    caller=SimpleNamespace(scopes=FULL_ACCESS), session=SimpleNamespace(grant_id="0" * 32)
)


@dataclass
class FakeStore:
    """A store in which another request adds the same key after the keys were listed.

    Attributes:
        stored_changes: How the stored key differs from the added one; None if it is deleted.
    """

    stored_changes: dict[str, Any] | None
    added: list[AccessKey] = field(default_factory=list)

    @property
    def accounts(self) -> Self:
        return self

    @property
    def keys(self) -> Self:
        return self

    async def get_server_time(self) -> datetime:
        return NOW

    async def list_keys(self, _user_id: str) -> list[AccessKey]:
        return []

    async def add(self, key: AccessKey) -> None:
        self.added.append(key)
        raise WriteConflict("The database refused: AlreadyExists.")

    async def get(self, _key_id: str) -> AccessKey | None:
        if self.stored_changes is None:
            return None
        return replace(self.added[0], **self.stored_changes)


async def make_key(
    monkeypatch: pytest.MonkeyPatch, stored_changes: dict[str, Any] | None
) -> AccessKey:
    """Let the console make a key of the same id as one that is stored, with these changes."""
    monkeypatch.setattr(keys, "AccessStore", lambda _connection: FakeStore(stored_changes))
    access = SimpleNamespace(connection=None, keyring=Keyring([SecretStr("s" * 32)]))
    pages = KeyPages(cast("Any", access), cast("Any", None))
    _, key = await pages._make_key(REQUESTED_KEY, "ada", FULL_ACCESS, cast("Any", VISIT))  # noqa: SLF001
    return key


@pytest.mark.parametrize("stored_changes", [None, {"revoked_at": NOW}, {"expires_at": NOW}])
async def test_a_key_that_is_no_longer_valid_need_not_be_revoked(
    monkeypatch: pytest.MonkeyPatch, stored_changes: dict[str, Any] | None
) -> None:
    with pytest.raises(Conflict, match="no longer valid") as caught:
        await make_key(monkeypatch, stored_changes)
    assert "revoke it" not in caught.value.message


@pytest.mark.parametrize(
    ("age", "is_shown"), [(REPEAT_WINDOW, True), (REPEAT_WINDOW + timedelta(seconds=1), False)]
)
async def test_the_request_that_loses_the_race_shows_the_same_new_key(
    monkeypatch: pytest.MonkeyPatch, age: timedelta, *, is_shown: bool
) -> None:
    changes = {"created_at": NOW - age}
    with nullcontext() if is_shown else pytest.raises(Conflict, match="shown before"):
        assert (await make_key(monkeypatch, changes)).name == "laptop"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "1 to 100 characters"),
        ("x" * 101, "1 to 100 characters"),
        ("\U0001f469\u200d\U0001f680", "invisible character"),
        ("a\u202eb", "invisible character"),
    ],
)
def test_an_error_for_a_rejected_name_says_why(name: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        keys._parse_name(name)  # noqa: SLF001
    assert keys._parse_name("  my \t laptop ") == "my laptop"  # noqa: SLF001
    assert keys._parse_name("x" * 100) == "x" * 100  # noqa: SLF001


@pytest.mark.parametrize("days", ["", "30", "-1"])
def test_a_lifetime_that_is_not_listed_is_refused(days: str) -> None:
    with pytest.raises(InvalidInput, match="how long the key is valid"):
        keys._parse_days(days)  # noqa: SLF001
