"""Settings are read once; an argument beats an environment variable."""

import json
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from shared.core.errors import InvalidInput
from shared.core.settings import Settings, list_setting_groups

SECRET = "zyzzyva"
INVALID_WITH_SECRET = [
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
"""Invalid settings that contain a secret, which must not reach a log."""
VALUES_INVALID_EVERYWHERE = [f'[["{SECRET}"]]', f'{{"{SECRET}": ["{SECRET}"]}}']
"""A list of lists and an object of lists: neither is valid for any setting."""
NON_TEXT_SETTINGS = [
    name
    for name, field in Settings.model_fields.items()
    if field.annotation not in (str, str | None, SecretStr, SecretStr | None)
]
ORIGINS = """
    https://carrel.example https://carrel.example/ https://carrel.example:8443
    https://[2001:db8::1] http://localhost:8080 http://127.0.0.1 http://[::1]:8080/
"""
NO_ORIGINS = """
    http://carrel.example http://localhost.evil.example http://127.0.0.2:8080 ftp://carrel.example
    carrel.example localhost:8080 https:// https:///mcp https://carrel.example/mcp
    https://carrel.example// https://carrel.example?a=b https://carrel.example/?
    https://carrel.example# https://ada@carrel.example https://@carrel.example
    https://carrel.example: https://carrel.example:port https://::1 https://[carrel]
"""
WRONG_PORTS = "https://x.example:443 http://localhost:80 https://x.example:99999 https://x:0"
ENDPOINTS = """
    https://api.openai.com/v1 https://models.example:8443/ http://localhost:11434/v1
    http://127.0.0.1:8000 http://[::1]:8000/v1
"""
NO_ENDPOINTS = f"""
    http://models.example/v1 http://localhost.evil.example ftp://models.example models.example/v1
    https:// https:///v1 https://{SECRET}@models.example/v1 https://models.example/v1?key={SECRET}
    https://models.example/v1#{SECRET} https://carrel:{SECRET}@[models/v1
"""
PRICES_MESSAGE = (
    """Each value in TOOL_PRICES must be 0 or more, such as TOOL_PRICES='{"search_kb": 500}'."""
)
EMAILS_MESSAGE = (
    """ALLOWED_EMAILS must be a JSON list, such as ALLOWED_EMAILS='["you@example.com"]'."""
)


@pytest.mark.requirement("000-C1", "000-CR5", "002-A3")
def test_environment_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "reading-room")
    monkeypatch.setenv("TOOL_URLS", '{"get_chunk": "https://example.com"}')
    monkeypatch.setenv("DISABLED_TOOLS", '["search_kb"]')
    monkeypatch.setenv("TOOL_PRICES", '{"get_chunk": 20}')
    settings = Settings()
    assert settings.google_cloud_project == "reading-room"
    assert settings.tool_urls == {"get_chunk": "https://example.com"}
    assert settings.disabled_tools == ("search_kb",)
    assert settings.tool_prices == {"get_chunk": 20}


@pytest.mark.requirement("000-C1")
def test_an_argument_beats_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "reading-room")
    assert Settings(google_cloud_project="mine").google_cloud_project == "mine"


def test_settings_cannot_be_changed() -> None:
    settings = Settings()
    for name in Settings.model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(settings, name, getattr(settings, name))


def test_each_setting_belongs_to_one_group_and_is_described() -> None:
    groups = list_setting_groups()
    assert [name for group in groups.values() for name in group.model_fields] == list(
        Settings.model_fields
    )
    assert not [title for title in groups if not 5 < len(title) < 70]
    assert next(iter(groups)) == "Project and databases"
    assert not [name for name, field in Settings.model_fields.items() if not field.description]
    examples = [field.examples[0] for field in Settings.model_fields.values() if field.examples]
    assert json.loads(json.dumps(examples)) == examples


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(InvalidInput, match="INGEST_PTH is not a setting"):
        Settings(ingest_pth="notes")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LEASE_SECONDS", "0", "LEASE_SECONDS must be more than 0.0."),
        ("LEASE_SECONDS", "soon", "LEASE_SECONDS must be a number."),
        ("READS_PER_MINUTE", "0", "READS_PER_MINUTE must be 1 or more."),
        ("READS_PER_MINUTE", "1.5", "READS_PER_MINUTE must be a whole number."),
        ("EMBEDDING_DIMENSION", "2049", "EMBEDDING_DIMENSION must be 2048 or less."),
        ("PUBLIC_ACCESS", "perhaps", "PUBLIC_ACCESS must be true or false."),
        ("GENERATION_MODEL", "[]", "GENERATION_MODEL must be text, not JSON."),
        (
            "EMBEDDING_PROVIDER",
            "crystal-ball",
            "EMBEDDING_PROVIDER must be 'local', 'vertex' or 'openai'.",
        ),
        ("ALLOWED_EMAILS", "[ann@example.com]", EMAILS_MESSAGE),
        ("TOOL_PRICES", '{"search_kb": -1}', PRICES_MESSAGE),
        (
            "TIME_ZONE",
            "Atlantis",
            "TIME_ZONE: not a time zone of the IANA database, such as Europe/Berlin.",
        ),
    ],
)
def test_an_error_says_what_the_setting_must_be(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidInput) as caught:
        Settings()
    assert str(caught.value) == message


def test_each_invalid_setting_has_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASE_SECONDS", "soon")
    monkeypatch.setenv("MATERIALS_DAYS", "0")
    with pytest.raises(InvalidInput) as caught:
        Settings()
    expected = "LEASE_SECONDS must be a number. MATERIALS_DAYS must be 1 or more."
    assert str(caught.value) == expected


@pytest.mark.parametrize("variables", INVALID_WITH_SECRET)
def test_errors_do_not_quote_secrets(
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
        *((name, value) for name in Settings.model_fields for value in VALUES_INVALID_EVERYWHERE),
        *((name, SECRET) for name in NON_TEXT_SETTINGS),
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
def test_errors_name_the_setting_and_not_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name.upper(), value)
    with pytest.raises(InvalidInput, match=name.upper()) as caught:
        Settings()
    message = str(caught.value)
    assert not [text for text in (value, SECRET, "beef") if text in message]


def test_a_secret_is_not_in_the_repr() -> None:
    settings = Settings(openai_api_key=SECRET)
    assert SECRET not in f"{settings!r} {settings}"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("extract_top_k", [0, 21]),
        ("extract_passage_characters", [199, 7_501]),
        ("extract_materials_characters", [0]),
        ("materials_days", [0]),
        ("embedding_dimension", [0, 2_049]),
        ("tool_prices", [{"search_kb": -1}, {"search_kb": 0.5}]),
        ("allowed_origins", [("*",)]),
        ("google_client_id", ["half a client"]),
        ("google_client_secret", [SecretStr("half a client")]),
    ],
)
def test_values_out_of_range_are_refused(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidInput, match=name.upper()):
            Settings(**{name: value})


@pytest.mark.parametrize("url", ORIGINS.split())
def test_the_public_url_is_an_origin(url: str) -> None:
    assert url == Settings(public_url=url).public_url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        *((url, "PUBLIC_URL") for url in NO_ORIGINS.split()),
        ("https://carrel.example\n", "PUBLIC_URL"),
        (" https://carrel.example", "PUBLIC_URL"),
        ("https://carrel example", "PUBLIC_URL"),
        # Browsers leave out the usual ports.
        *((url, "PUBLIC_URL must have a port from 1 to 65535") for url in WRONG_PORTS.split()),
    ],
)
def test_other_public_urls_are_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Settings(public_url=url)


@pytest.mark.parametrize(
    ("arguments", "proxy_count"),
    [
        ({"public_url": "https://carrel.example"}, 1),
        ({"public_url": "https://carrel.example", "trusted_proxies": 0}, 0),
        ({"public_url": "http://localhost:8080"}, 0),
        ({"public_url": "http://localhost:8080", "trusted_proxies": 2}, 2),
    ],
)
def test_one_proxy_is_trusted_by_default_except_on_loopback(
    arguments: dict[str, Any], proxy_count: int
) -> None:
    assert Settings(**arguments).proxy_count == proxy_count


@pytest.mark.parametrize(
    "host",
    ["*", "*.example.com", "a.example:*", "http://a.example", "a.example/", "A.example", ".a", ""],
)
def test_an_allowed_host_is_exact(host: str) -> None:
    with pytest.raises(InvalidInput, match="ALLOWED_HOSTS must be host or host:port"):
        Settings(allowed_hosts=("host.docker.internal", host))


@pytest.mark.parametrize(
    ("provider", "model"),
    [("vertex", "gemini-embedding-001"), ("openai", "text-embedding-3-small")],
)
def test_each_provider_has_a_default_model(provider: str, model: str) -> None:
    assert Settings(embedding_provider=provider).embedding_model_or_default == model
    settings = Settings(embedding_provider=provider, embedding_model="mine")
    assert settings.embedding_model_or_default == "mine"


@pytest.mark.parametrize("url", ENDPOINTS.split())
def test_an_endpoint_is_https_or_on_loopback(url: str) -> None:
    assert url == Settings(openai_base_url=url).openai_base_url


@pytest.mark.parametrize(
    "url",
    [*NO_ENDPOINTS.split(), "https://models.example/v1\n", "https://models example/v1"],
)
def test_other_endpoints_are_refused_without_quoting(url: str) -> None:
    with pytest.raises(InvalidInput, match="OPENAI_BASE_URL") as caught:
        Settings(openai_base_url=url)
    assert SECRET not in str(caught.value)
