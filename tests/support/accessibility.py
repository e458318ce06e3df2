"""Checks that pages are accessible, by the default rules of axe-core."""

from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Frame, Page

from tests.support.npm import NotInstalled, install_packages

_PACKAGE: Final = Path(__file__).with_name("axe")
_SCRIPT: Final = """async () => (await axe.run()).violations.map(
  ({id, impact, nodes}) => [id, impact, nodes.map((node) => node.html)])"""


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which `find_violations` runs in a page."""
    try:
        folder = install_packages(_PACKAGE)
    except NotInstalled as error:
        pytest.skip(str(error))
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


async def find_violations(page: Page | Frame, axe: str) -> list[Any]:
    """Return the problems of a page: for each, the rule, its impact and the elements as HTML."""
    await page.evaluate(axe)
    violations: list[Any] = await page.evaluate(_SCRIPT)
    return violations
