"""What a deployment may say of extract_key_info, and of who embeds for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.core.errors import InvalidInput
from shared.core.settings import Settings

SECRET = "zyzzyva"


def test_by_default_five_of_twenty_passages_are_asked_for() -> None:
    settings = Settings()
    assert (5, 20) == (settings.extract_top_k, settings.extract_top_k_limit)


def test_the_default_may_be_as_large_as_the_limit_and_no_larger() -> None:
    assert 7 == Settings(extract_top_k=7, extract_top_k_limit=7).extract_top_k
    for wrong in ({"extract_top_k": 21}, {"extract_top_k_limit": 4}):
        with pytest.raises(InvalidInput, match="EXTRACT_TOP_K is EXTRACT_TOP_K_LIMIT at most"):
            Settings(**wrong)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("extract_top_k", [0]),
        ("extract_top_k_limit", [0, 51]),
        ("extract_semantic_weight", [-0.1, 1.1, "nan"]),
        ("extract_passage_characters", [199, 8_001]),
        ("extract_materials_characters", [0]),
        ("materials_days", [0]),
        ("openai_dimension", [0, 2_049]),
        ("tool_prices", [{"search_kb": -1}, {"search_kb": 0.5}]),
        ("max_request_bytes", [0, 32 * 1024 * 1024 + 1]),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidInput, match=name.upper()):
            Settings(**{name: value})


def test_tools_and_prices_are_read_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISABLED_TOOLS", '["search_kb"]')
    monkeypatch.setenv("TOOL_PRICES", json.dumps({"get_chunk": 20}))
    settings = Settings()
    assert (("search_kb",), {"get_chunk": 20}) == (settings.disabled_tools, settings.tool_prices)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1",
        "https://models.example:8443/",
        "http://localhost:11434/v1",
        "http://127.0.0.1:8000",
        "http://[::1]:8000/v1",
    ],
)
def test_an_endpoint_is_reached_encrypted_or_on_this_machine(url: str) -> None:
    assert url == Settings(openai_base_url=url).openai_base_url


@pytest.mark.parametrize(
    "url",
    [
        "http://models.example/v1",
        "http://localhost.evil.example",
        "ftp://models.example",
        "models.example/v1",
        "https://",
        "https:///v1",
        f"https://{SECRET}@models.example/v1",
        f"https://models.example/v1?key={SECRET}",
        f"https://models.example/v1#{SECRET}",
        "https://models.example/v1\n",
        "https://models example/v1",
        f"https://carrel:{SECRET}@[models/v1",
    ],
)
def test_a_wrong_address_of_an_endpoint_is_refused_unquoted(url: str) -> None:
    with pytest.raises(InvalidInput, match="OPENAI_BASE_URL") as caught:
        Settings(openai_base_url=url)
    assert SECRET not in str(caught.value)


def test_the_endpoints_key_is_not_shown() -> None:
    settings = Settings(openai_api_key=SECRET)
    assert SECRET not in f"{settings!r} {settings}"


def test_an_answer_fits_a_document() -> None:
    with pytest.raises(InvalidInput, match="150,000 at most"):
        Settings(extract_top_k_limit=50, extract_passage_characters=8_000)
    Settings(extract_top_k_limit=50, extract_passage_characters=3_000)
