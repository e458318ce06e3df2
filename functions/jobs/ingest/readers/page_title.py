"""The title of a web page, without the name of the site."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from functions.jobs.ingest.readers.fields import to_one_line

if TYPE_CHECKING:
    from functions.jobs.ingest.readers.blocks import Element

_SEPARATOR: Final = re.compile(r"(\s*\|\s*|\s+[-–—·]\s+)")  # noqa: RUF001 - dashes
"""What stands between the title of an article and the name of the site."""


@dataclass(frozen=True, slots=True)
class PageTitles:
    """What a page gives as titles.

    Attributes:
        title_element: The text of the element `title`, which mostly names the site, too.
        headings: The headings of the first level in its main part, where the site is not named.
    """

    title_element: str
    headings: frozenset[str] = frozenset()


def find_titles(tree: Element) -> PageTitles:
    """Find the titles of a page."""
    headings = tree.xpath("//main//h1 | //article//h1")
    return PageTitles(
        to_one_line(tree.xpath("string(//head//title)")),
        frozenset(to_one_line(heading.text_content()) for heading in headings),
    )


def choose_title(title: str, titles: PageTitles, *, site_name: str, url: str) -> str:
    """Return a title without the name of the site, as long as something else is left.

    Args:
        title: What trafilatura chose, such as a heading or `og:title`.
        titles: What the page gives as titles.
        site_name: What the page gives as the name of the site, or "".
        url: The URL of the page, or "".
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    site_names = {_squash(name) for name in (site_name, *host.split("."))}
    first, *others = _SEPARATOR.split(titles.title_element)
    if others and title == others[-1] and title not in titles.headings:
        title = first if _squash(first) not in site_names else title
    parts = _SEPARATOR.split(title)  # the separators have odd indexes
    if len(parts) > 1 and _squash(parts[-1]) in site_names:
        del parts[-2:]
    if len(parts) > 1 and _squash(parts[0]) in site_names:
        del parts[:2]
    return "".join(parts)


def _squash(name: str) -> str:
    """Return the letters and digits of a name, in which a title and a host name can agree."""
    return "".join(filter(str.isalnum, name.casefold()))
