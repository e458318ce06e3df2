"""Settings are read once; an argument beats a variable."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from shared.core.errors import InvalidInput
from shared.core.settings import Settings

SECRET = "zyzzyva"
WITH_A_SECRET = [
    {"ACCESS_SECRETS": SECRET},
    {"ACCESS_SECRETS": f'["{SECRET}"]'},
    {"ACCESS_SECRETS": f'["{SECRET}'},
    {"ACCESS_SECRETS": f'{{"{SECRET}": 1}}'},
    {"ACCESS_SECRETS": f'[["{SECRET}"]]'},
    {"ACCESS_SECRETS": f'["{SECRET * 5}", 5]'},
    {"ACCESS_SECRETS": f'["{SECRET * 5}"]', "LEASE_SECONDS": "soon"},
    {"BILLING_TOKEN": f'["{SECRET}"]'},
    {"GOOGLE_CLIENT_SECRET": SECRET},
    {"GOOGLE_CLIENT_SECRET": f'{{"web": {{"client_secret": "{SECRET}"}}}}'},
    {"PUBLIC_URL": f"https://carrel:{SECRET}@carrel.example"},
    {"PUBLIC_URL": f"https://carrel.example:{SECRET}"},
]
"""Settings that are wrong, and hold what nobody may read in a log."""
NO_VALUE_OF_ANY = [f'[["{SECRET}"]]', f'{{"{SECRET}": ["{SECRET}"]}}']
"""A list of lists and an object of lists: no setting is either."""
NOT_TEXT = [
    name
    for name, field in Settings.model_fields.items()
    if field.annotation not in (str, str | None, SecretStr, SecretStr | None)
]
PRICES = (
    """Each value in TOOL_PRICES must be 0 or more, such as TOOL_PRICES='{"search_kb": 500}'."""
)
EMAILS = """ALLOWED_EMAILS must be a JSON list, such as ALLOWED_EMAILS='["you@example.com"]'."""


def test_a_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "reading-room")
    monkeypatch.setenv("TOOL_URLS", '{"get_chunk": "https://example.com"}')
    settings = Settings()
    assert settings.google_cloud_project == "reading-room"
    assert settings.tool_urls == {"get_chunk": "https://example.com"}


def test_an_argument_beats_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "reading-room")
    assert Settings(google_cloud_project="mine").google_cloud_project == "mine"


def test_a_late_write_is_refused() -> None:
    settings = Settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.ingest_path = "elsewhere"  # type: ignore[misc]


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(InvalidInput, match="INGEST_PTH is no setting"):
        Settings(ingest_pth="notes")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LEASE_SECONDS", "0", "LEASE_SECONDS must be more than 0.0."),
        ("LEASE_SECONDS", "soon", "LEASE_SECONDS must be a number."),
        ("LEASE_SECONDS", "[5]", "LEASE_SECONDS must be a number."),
        ("MAX_REQUEST_BYTES", "-1", "MAX_REQUEST_BYTES must be more than 0."),
        ("READS_PER_MINUTE", "0", "READS_PER_MINUTE must be 1 or more."),
        ("READS_PER_MINUTE", "1.5", "READS_PER_MINUTE must be a whole number."),
        ("VERTEX_DIMENSION", "2049", "VERTEX_DIMENSION must be 2048 or less."),
        ("PUBLIC_ACCESS", "perhaps", "PUBLIC_ACCESS must be true or false."),
        ("PUBLIC_ACCESS", "{}", "PUBLIC_ACCESS must be true or false."),
        ("GENERATION_MODEL", "[]", "GENERATION_MODEL must be text, not JSON."),
        (
            "EMBEDDING_PROVIDER",
            "crystal-ball",
            "EMBEDDING_PROVIDER must be 'local', 'vertex' or 'openai'.",
        ),
        (
            "ALLOWED_EMAILS",
            "ann@example.com",
            EMAILS,
        ),
        (
            "ALLOWED_EMAILS",
            "[ann@example.com]",
            EMAILS,
        ),
        ("TOOL_PRICES", '{"search_kb": -1}', PRICES),
        (
            "TIME_ZONE",
            "Atlantis",
            "TIME_ZONE: no time zone of the IANA database, such as Europe/Berlin.",
        ),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_must_be(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidInput) as caught:
        Settings()
    assert message == str(caught.value)


def test_each_wrong_setting_has_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASE_SECONDS", "soon")
    monkeypatch.setenv("MATERIALS_DAYS", "0")
    with pytest.raises(InvalidInput) as caught:
        Settings()
    expected = "MATERIALS_DAYS must be 1 or more. LEASE_SECONDS must be a number."
    assert expected == str(caught.value)


@pytest.mark.parametrize("variables", WITH_A_SECRET)
def test_what_is_wrong_is_said_without_the_secret(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput) as caught:
        Settings()
    assert any(name in str(caught.value).upper() for name in variables)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in Settings.model_fields for value in NO_VALUE_OF_ANY),
        *((name, SECRET) for name in NOT_TEXT),
        ("local_user", "-1"),
        ("local_user", SECRET.upper()),
        ("public_url", SECRET),
        ("public_url", "https://[beef]"),
        ("time_zone", SECRET),
        *((name, SECRET) for name in ("bulk_bucket", "ingest_bucket")),
        *(
            (name, value)
            for name in ("openai_base_url", "readwise_url")
            for value in (SECRET, f"http://{SECRET}.example", f"https://[{SECRET}]")
        ),
    ],
)
def test_a_wrong_value_is_named_and_not_quoted(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name.upper(), value)
    with pytest.raises(InvalidInput, match=name.upper()) as caught:
        Settings()
    message = str(caught.value)
    assert not [quoted for quoted in (value, SECRET, "beef") if quoted in message]


@pytest.mark.parametrize(
    "url",
    [
        "https://carrel.example",
        "https://carrel.example/",
        "https://carrel.example:8443",
        "https://[2001:db8::1]",
        "http://localhost:8080",
        "http://127.0.0.1",
        "http://[::1]:8080/",
    ],
)
def test_the_public_url_is_an_origin_with_or_without_a_slash(url: str) -> None:
    assert url == Settings(public_url=url).public_url


@pytest.mark.parametrize(
    "url",
    [
        "http://carrel.example",
        "http://localhost.evil.example",
        "http://127.0.0.2:8080",
        "ftp://carrel.example",
        "carrel.example",
        "localhost:8080",
        "https://",
        "https:///mcp",
        "https://carrel.example/mcp",
        "https://carrel.example//",
        "https://carrel.example?a=b",
        "https://carrel.example/?",
        "https://carrel.example#",
        "https://ada@carrel.example",
        "https://@carrel.example",
        "https://carrel.example:",
        "https://carrel.example:port",
        "https://carrel.example\n",
        " https://carrel.example",
        "https://carrel example",
        "https://::1",
        "https://[carrel]",
    ],
)
def test_another_public_url_is_refused_in_words(url: str) -> None:
    with pytest.raises(InvalidInput, match="PUBLIC_URL"):
        Settings(public_url=url)


@pytest.mark.parametrize(
    "half", [{"google_client_id": "carrel"}, {"google_client_secret": SecretStr("s")}]
)
def test_half_a_client_for_google_is_refused(half: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET"):
        Settings(**half)


def test_every_setting_is_described() -> None:
    undescribed = [name for name, field in Settings.model_fields.items() if not field.description]
    assert undescribed == []


@pytest.mark.parametrize(
    ("settings", "proxies"),
    [
        ({"public_url": "https://carrel.example"}, 1),
        ({"public_url": "https://carrel.example", "trusted_proxies": 0}, 0),
        ({"public_url": "http://localhost:8080"}, 0),
        ({"public_url": "http://localhost:8080", "trusted_proxies": 2}, 2),
    ],
)
def test_in_the_cloud_one_proxy_is_ours_and_on_a_laptop_none(
    settings: dict[str, Any], proxies: int
) -> None:
    assert proxies == Settings(**settings).proxies


@pytest.mark.parametrize(
    "url",
    ["https://x.example:443", "http://localhost:80", "https://x.example:99999", "https://x:0"],
)
def test_a_port_that_browsers_leave_out_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="PUBLIC_URL names no port"):
        Settings(public_url=url)


def test_all_web_pages_are_not_an_origin() -> None:
    with pytest.raises(InvalidInput, match="ALLOWED_ORIGINS"):
        Settings(allowed_origins=("*",))
