"""Settings with which no function would start are refused before anything is made."""

from __future__ import annotations

import json

import pytest

from infra.cloud.deployment import Deployment, checked
from infra.cloud.failures import NotDone
from tests.support.fake_deployment import said

VERTEX = {"EMBEDDING_PROVIDER": "vertex"}
SIGN_IN = {"GOOGLE_CLIENT_ID": "1-a.apps.googleusercontent.com"}
PEOPLE = {"ALLOWED_EMAILS": '["ada@example.com"]'}


def deployment(settings: dict[str, str], *secrets: str, **more: str) -> Deployment:
    described = {"project": "my-carrel-123", "settings": settings, "secrets": secrets, **more}
    return Deployment.model_validate_json(json.dumps(described))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 'settings.EMBEDDING_PROVIDER: write "vertex" or "openai"'),
        ({"EMBEDDING_PROVIDER": "local"}, 'settings.EMBEDDING_PROVIDER: write "vertex" or'),
        (
            VERTEX | {"ALLOWED_EMAILS": "ada@example.com"},
            r'''must be a JSON list; write it as in "ALLOWED_EMAILS": "[\"you@example.com\"]"''',
        ),
        (
            VERTEX | {"ALLOWED_EMAILS": "[ada@example.com]"},
            "settings: ALLOWED_EMAILS must be a JSON list; write it as in",
        ),
        (
            VERTEX | {"TOOL_TIMEOUTS": "20"},
            r'''write it as in "TOOL_TIMEOUTS": "{\"search_kb\": 20}"''',
        ),
        (
            VERTEX | {"READS_PER_MINUTE": "many"},
            "READS_PER_MINUTE must be a whole number",
        ),
        (
            VERTEX | {"TIME_ZONE": "Europe/Atlantis"},
            "TIME_ZONE: no time zone of the IANA",
        ),
        (VERTEX | {"EXTRACT_TOP_K": "30"}, "EXTRACT_TOP_K must be at most EXTRACT_TOP_K_LIMIT"),
        (VERTEX | SIGN_IN, "GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET must be set together"),
        (VERTEX | {"LOCAL_USER": "me"}, "LOCAL_USER opens everything"),
        (VERTEX | {"EMAILS": "[]"}, "settings.EMAILS: there is none of this name"),
        (VERTEX | {"time_zone": "UTC"}, "settings.time_zone: there is none of this name"),
    ],
)
def test_a_setting_that_does_not_hold_is_named_with_what_to_write(
    settings: dict[str, str], expected: str
) -> None:
    with pytest.raises(NotDone) as failure:
        checked(deployment(settings).to_json(), "deployment.tfvars.json")
    assert expected in said(failure)
    assert said(failure).startswith("deployment.tfvars.json: ")


@pytest.mark.parametrize(
    "chosen",
    [
        deployment(VERTEX),
        deployment(VERTEX | {"READWISE_URL": ""}, "READWISE_TOKEN"),
        deployment({"EMBEDDING_PROVIDER": "openai"}, "OPENAI_API_KEY"),
        deployment(VERTEX | SIGN_IN | PEOPLE, "GOOGLE_CLIENT_SECRET"),
        deployment(VERTEX | {"BILLING_URL": "https://bills.example.com"}, "BILLING_TOKEN"),
        deployment(VERTEX, public_url="https://carrel.example.com"),
    ],
)
def test_settings_that_functions_start_with_are_taken(chosen: Deployment) -> None:
    assert chosen == checked(chosen.to_json(), "deployment.tfvars.json")


def test_what_this_process_is_told_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLIENT_SECRET", "of-somewhere-else")
    with pytest.raises(NotDone, match="must be set together"):
        checked(deployment(VERTEX | SIGN_IN).to_json(), "here")
    monkeypatch.setenv("ALLOWED_EMAILS", "[broken")
    monkeypatch.setenv("LOCAL_USER", "me")
    checked(deployment(VERTEX).to_json(), "here")
