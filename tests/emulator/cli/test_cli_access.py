"""`carrel keys` and `carrel accounts` create and revoke keys, and manage accounts of users."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import click
import pytest
from pydantic import SecretStr

from infra.cli.formatting import parse_micro_dollars
from shared.accounts.access_key import AccessKey, new_key, parse_key_id
from shared.accounts.keyring import Keyring
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS, Scope
from shared.firestore.connection import Connection
from tests.support.commands import expect_error, run_carrel

SECRET = "a-secret-of-tests-that-opens-nothing"
KEYRING = Keyring([SecretStr(SECRET)])
KEY_ID = slice(7, 19)
"""The part of a key that is its id."""
KEY_SECRET = slice(20, None)
"""The part of a key that must not be printed again."""


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a secret."""
    monkeypatch.setenv("ACCESS_SECRETS", json.dumps([SECRET]))


def run_on_store(project: str, work: Callable[[AccessStore], Awaitable[object]]) -> object:
    """Call an asynchronous function with the store of accounts and keys; return its result."""

    async def run_work() -> object:
        connection = Connection(project, "access")
        try:
            return await work(AccessStore(connection))
        finally:
            await connection.aclose()

    return asyncio.run(run_work())


def read_keys(project: str) -> list[AccessKey]:
    """Return the stored keys."""
    keys = run_on_store(project, lambda store: store.keys.list_keys())
    assert isinstance(keys, list)
    return keys


def create_key(*options: str, user: str = "ann@example.com") -> str:
    """Create a key and return its text."""
    result = run_carrel("keys", "create", "--user", user, "--name", "laptop", *options)
    assert result.exit_code == 0, result.stderr
    return result.stdout.strip()


def test_the_new_key_alone_goes_to_standard_output(project: str) -> None:
    result = run_carrel("keys", "create", "--user", "ann@example.com", "--name", "laptop")
    [text] = result.stdout.splitlines()
    [key] = read_keys(project)
    assert parse_key_id(KEYRING, text) == key.key_id
    assert (key.user_id, key.name) == ("ann@example.com", "laptop")
    assert (key.scopes, key.expires_at) == (FULL_ACCESS, None)

    for word in ("Authorization: Bearer", "X-API-Key", "TASK_ID@KEY", "sign-in page", "CARREL_KEY"):
        assert word in result.stderr
    assert text not in result.stderr


def test_a_list_of_keys_contains_no_secret(project: str) -> None:
    key = create_key()
    create_key("--scope", "write", "--expires-in-days", "30", user="bob")
    [bobs_key] = [stored for stored in read_keys(project) if stored.user_id == "bob"]
    assert bobs_key.scopes == {Scope.READ, Scope.WRITE}  # who may write may read
    assert bobs_key.expires_at == bobs_key.created_at + timedelta(days=30)

    result = run_carrel("keys", "list")
    heading, bob, ann = result.stdout.splitlines()
    assert heading.startswith("ID ")
    scopes = ["curate", "read", "write"]
    assert ann.split()[:6] == [key[KEY_ID], "laptop", "ann@example.com", *scopes]
    assert ann.split()[-3:] == ["never", "never", "active"]
    assert bob.split()[2:5] == ["bob", "read", "write"]
    assert ann.index("active") == bob.index("active") == heading.index("STATE")
    assert key[KEY_SECRET] not in result.output

    assert len(run_carrel("keys", "list", "--user", "bob").stdout.splitlines()) == 2
    assert "There are no keys of eve." in run_carrel("keys", "list", "--user", "eve").stdout


def test_a_list_of_keys_shows_which_are_revoked_or_expired(project: str) -> None:
    past = datetime.now(UTC) - timedelta(days=2)
    expires_at = past + timedelta(days=1)
    _, old = new_key(KEYRING, "old", "k", FULL_ACCESS, created_at=past, expires_at=expires_at)
    run_on_store(project, lambda store: store.keys.add(old))
    run_carrel("keys", "revoke", create_key(user="bob")[KEY_ID])
    create_key(user="cy")
    run_carrel("accounts", "revoke", "cy")
    create_key(user="dee")
    rows = [line.split() for line in run_carrel("keys", "list").stdout.splitlines()[1:]]
    expected = [("dee", "active"), ("cy", "revoked"), ("bob", "revoked"), ("old", "expired")]
    assert [(row[2], row[-1]) for row in rows] == expected


def test_revoking_a_key_does_not_print_the_key(project: str) -> None:
    key = create_key()
    result = run_carrel("keys", "revoke", key)
    assert result.exit_code == 0
    assert key[KEY_SECRET] not in result.output
    [stored_key] = read_keys(project)
    assert stored_key.revoked_at


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--user", "a/b", "--name", "x"], "'a/b' is not a user id"),
        (["--user", "ann", "--name", " "], "1 to 100 printable"),
        (["--user", "ann", "--name", "x" * 101], "1 to 100 printable"),
        (["--user", "ann", "--name", "a\x1b[2J"], "1 to 100 printable"),
        (["--user", "ann", "--name", "x", "--scope", "admin"], "'admin'"),
        (["--user", "ann", "--name", "x", "--expires-in-days", "0"], "0 is not in the range"),
        (["--user", "ann"], "--name"),
    ],
)
def test_a_key_with_invalid_options_is_not_created(
    project: str, options: list[str], words: str
) -> None:
    result = run_carrel("keys", "create", *options)
    assert words in result.stderr
    assert (result.exit_code > 0, result.stdout) == (True, "")
    assert read_keys(project) == []


def test_credits_are_added_and_shown_exactly() -> None:
    for amount, balance in (("5", "$5.00"), ("0.000001", "$5.000001"), ("-0.50", "$4.500001")):
        output = run_carrel("accounts", "credit", "ann", amount).stdout
        assert f"The balance of ann is now {balance}." in output
    assert "$4.500001, $0.00 of it is on hold" in run_carrel("accounts", "show", "ann").stdout
    assert "cannot be withdrawn" in expect_error("accounts", "credit", "ann", "-5")


@pytest.mark.parametrize(
    ("command", "value", "given", "removed", "shown"),
    [
        ("limit", "10", "up to $10.00 per month", "no monthly limit", "monthly limit  $10.00"),
        ("role", "owner", "ann has the role owner", "DEFAULT_ROLE", "role           owner"),
    ],
)
def test_a_monthly_limit_and_a_role_can_be_set_and_removed(
    command: str, value: str, given: str, removed: str, shown: str
) -> None:
    before = run_carrel("accounts", "show", "ann").stdout
    assert "monthly limit  none" in before
    assert "role           default" in before
    assert given in run_carrel("accounts", command, "ann", value).stdout
    assert shown in run_carrel("accounts", "show", "ann").stdout
    none = "none" if command == "limit" else "default"
    assert removed in run_carrel("accounts", command, "ann", none).stdout
    assert run_carrel("accounts", "show", "ann").stdout == before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("keys", "revoke", "0123456789ab"), 1, "There is no key 0123456789ab."),
        (("keys", "revoke", "laptop"), 1, "12 hexadecimal digits"),
        (("keys", "revoke", "../accounts/ann"), 1, "12 hexadecimal digits"),
        (("accounts", "show", "Ann"), 1, "'Ann' is not a user id"),
        (("accounts", "revoke", "Ann"), 1, "'Ann' is not a user id"),
        (("accounts", "role", "ann", "boss"), 2, "'reader', 'editor', 'owner', 'default'"),
    ],
)
def test_an_unknown_key_user_or_role_is_refused(
    arguments: tuple[str, ...], code: int, words: str
) -> None:
    assert words in expect_error(*arguments, code=code)


def test_revoking_a_user_keeps_the_account() -> None:
    run_carrel("accounts", "credit", "ann", "5")
    run_carrel("keys", "create", "--user", "ann", "--name", "x")
    assert "Revoked for ann: 1 key, 0 sign-ins." in run_carrel("accounts", "revoke", "ann").stdout
    assert "Is the name right?" in run_carrel("accounts", "revoke", "anne").stdout
    output = run_carrel("accounts", "show", "ann").stdout
    assert "$5.00" in output
    assert "all credentials created before 20" in output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$1.25", 1_250_000),
        (".000001", 1),
        ("1e2", 100_000_000),
        ("-3", -3_000_000),
        ("1000000", 1_000_000_000_000),
    ],
)
def test_dollars_are_exact_to_the_micro_dollar(text: str, expected: int) -> None:
    assert parse_micro_dollars(text) == expected


@pytest.mark.parametrize(
    "text", ["", "NaN", "inf", "0.0000001", "1,5", "1000000.01", "1e999", "1e-999"]
)
def test_an_invalid_amount_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_micro_dollars(text)
