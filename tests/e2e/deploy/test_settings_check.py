"""Settings with which no function would start are rejected before anything is created."""

import json

import click
import pytest

from infra.cloud.deployment import Deployment, parse_deployment

VERTEX = {"EMBEDDING_PROVIDER": "vertex"}
SIGN_IN = {"GOOGLE_CLIENT_ID": "1-a.apps.googleusercontent.com"}
EMAILS = {"ALLOWED_EMAILS": '["ada@example.com"]'}


def make_deployment(settings: dict[str, str], *secrets: str, **options: str) -> Deployment:
    """Make a deployment with these settings, names of secrets, and other fields."""
    fields = {"project": "my-carrel-123", "settings": settings, "secrets": secrets, **options}
    return Deployment.model_validate_json(json.dumps(fields))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 'settings.EMBEDDING_PROVIDER: write "vertex" or "openai"'),
        ({"EMBEDDING_PROVIDER": "local"}, 'settings.EMBEDDING_PROVIDER: write "vertex" or'),
        (
            VERTEX | {"ALLOWED_EMAILS": "ada@example.com"},
            r'''must be a JSON list; for example, "ALLOWED_EMAILS": "[\"you@example.com\"]"''',
        ),
        (
            VERTEX | {"ALLOWED_EMAILS": "[ada@example.com]"},
            "settings: ALLOWED_EMAILS must be a JSON list; for example,",
        ),
        (
            VERTEX | {"TOOL_TIMEOUTS": "20"},
            r'''for example, "TOOL_TIMEOUTS": "{\"search_kb\": 20}"''',
        ),
        (
            VERTEX | {"READS_PER_MINUTE": "many"},
            "READS_PER_MINUTE must be a whole number",
        ),
        (
            VERTEX | {"TIME_ZONE": "Europe/Atlantis"},
            "TIME_ZONE: not a time zone of the IANA",
        ),
        (VERTEX | {"EXTRACT_TOP_K": "30"}, "EXTRACT_TOP_K must be 20 or less"),
        (VERTEX | SIGN_IN, "GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET must be set together"),
        (VERTEX | {"LOCAL_USER": "me"}, "LOCAL_USER opens everything"),
        (VERTEX | {"EMAILS": "[]"}, "settings.EMAILS: there is no such setting"),
        (VERTEX | {"time_zone": "UTC"}, "settings.time_zone: there is no such setting"),
    ],
)
def test_an_invalid_setting_is_reported_with_a_hint(
    settings: dict[str, str], expected: str
) -> None:
    with pytest.raises(click.ClickException) as failure:
        parse_deployment(make_deployment(settings).model_dump_json(), "deployment.tfvars.json")
    assert expected in str(failure.value)
    assert str(failure.value).startswith("deployment.tfvars.json: ")


@pytest.mark.parametrize(
    "valid_deployment",
    [
        make_deployment(VERTEX),
        make_deployment(VERTEX | {"READWISE_URL": ""}, "READWISE_TOKEN"),
        make_deployment({"EMBEDDING_PROVIDER": "openai"}, "OPENAI_API_KEY"),
        make_deployment(VERTEX | SIGN_IN | EMAILS, "GOOGLE_CLIENT_SECRET"),
        make_deployment(VERTEX | {"BILLING_URL": "https://bills.example.com"}, "BILLING_TOKEN"),
        make_deployment(VERTEX, public_url="https://carrel.example.com"),
    ],
)
def test_valid_settings_are_accepted(valid_deployment: Deployment) -> None:
    text = valid_deployment.model_dump_json()
    assert parse_deployment(text, "deployment.tfvars.json") == valid_deployment


def test_the_check_ignores_the_environment_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLIENT_SECRET", "of-somewhere-else")
    with pytest.raises(click.ClickException, match="must be set together"):
        parse_deployment(make_deployment(VERTEX | SIGN_IN).model_dump_json(), "here")
    monkeypatch.setenv("ALLOWED_EMAILS", "[broken")
    monkeypatch.setenv("LOCAL_USER", "me")
    parse_deployment(make_deployment(VERTEX).model_dump_json(), "here")
