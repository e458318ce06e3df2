"""Settings are read once; an argument beats a variable."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from shared.settings import Settings


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
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Settings(ingest_pth="notes")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LEASE_SECONDS", "0"),
        ("LEASE_SECONDS", "soon"),
        ("MAX_REQUEST_BYTES", "-1"),
        ("EMBEDDING_PROVIDER", "crystal-ball"),
        ("VERTEX_DIMENSION", "2049"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValidationError, match=variable.lower()):
        Settings()


def test_every_setting_is_described() -> None:
    undescribed = [name for name, field in Settings.model_fields.items() if not field.description]
    assert undescribed == []
