"""The pages of MCP Apps, which clients show for results, are small, complete and safe."""

from __future__ import annotations

import re
from typing import Final

import pytest

from functions.gateway.apps.pages import build_app_page
from infra.build.discovery import ROOT, tools

APPS: Final = sorted({tool.app for tool in tools() if tool.app})
MAX_PAGE_BYTES: Final = 150_000
HTML_FROM_TEXT: Final = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|\beval\(|new Function|setAttribute\(\"(?:on|href|src|style)"
)
"""These parts of JavaScript would turn a text into HTML or code."""
REQUESTS: Final = re.compile(r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|\bimport\b.*from")
"""These parts of JavaScript would send a request."""


def test_each_app_that_a_tool_declares_has_a_script() -> None:
    scripts = {path.stem for path in (ROOT / "functions" / "gateway" / "apps").glob("*.js")}
    assert set(APPS) <= scripts
    assert APPS == ["hits", "map"]


@pytest.mark.parametrize("app", APPS)
def test_a_page_is_one_small_file_that_sends_no_requests(app: str) -> None:
    page = build_app_page(app)
    assert len(page.encode()) < MAX_PAGE_BYTES
    assert page.count("<script") == page.count("</script>") == 1
    assert page.count("<style>") == page.count("</style>") == 1
    assert re.findall(r"@import|url\(|<link|\ssrc=", page) == []
    assert REQUESTS.findall(page) == []
    assert HTML_FROM_TEXT.findall(page) == []
