"""The pages of MCP Apps: small, complete, and careful with texts."""

from __future__ import annotations

import re
from typing import Final

import pytest

from functions.gateway.apps.pages import build_app_page
from infra.build.discovery import ROOT, tools

APPS: Final = sorted({tool.app for tool in tools() if tool.app})
MAX_BYTES: Final = 150_000
HTML_FROM_TEXT: Final = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|\beval\(|new Function|setAttribute\(\"(?:on|href|src|style)"
)
"""What would make HTML or code of a text."""
REQUESTS: Final = re.compile(r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|\bimport\b.*from")


def test_the_apps_are_those_that_tools_declare() -> None:
    scripts = {path.stem for path in (ROOT / "functions" / "gateway" / "apps").glob("*.js")}
    assert set(APPS) <= scripts
    assert APPS == ["hits", "map"]


@pytest.mark.parametrize("app", APPS)
def test_a_page_is_one_small_file_that_asks_for_nothing(app: str) -> None:
    page = build_app_page(app)
    assert len(page.encode()) < MAX_BYTES
    assert page.count("<script") == page.count("</script>") == 1
    assert page.count("<style>") == page.count("</style>") == 1
    assert re.findall(r"@import|url\(|<link|\ssrc=", page) == []
    assert REQUESTS.findall(page) == []
    assert HTML_FROM_TEXT.findall(page) == []
