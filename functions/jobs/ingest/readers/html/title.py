"""Finds the title of a web page, without the site's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from functions.jobs.ingest.readers.fields import to_alphanumerics, to_one_line

if TYPE_CHECKING:
    from functions.jobs.ingest.readers.html.blocks import Element

_SEPARATOR: Final = re.compile(r"(\s*\|\s*|\s+[-–—·]\s+)")  # noqa: RUF001 - dashes
"""What separates an article's title from the site's name."""


@dataclass(frozen=True, slots=True)
class PageTitles:
    """The titles in a page.

    Attributes:
        title_element: The text of the element `title`, which usually names the site, too.
        headings: The level-one headings of the main content, which do not name the site.
        all_headings: The headings of the whole page, of levels one to three.
    """

    title_element: str
    headings: frozenset[str] = frozenset()
    all_headings: frozenset[str] = frozenset()


def find_titles(tree: Element) -> PageTitles:
    """Find the titles of a page."""
    return PageTitles(
        to_one_line(tree.xpath("string(//head//title)")),
        _read_texts(tree, "//main//h1 | //article//h1"),
        _read_texts(tree, "//h1 | //h2 | //h3"),
    )


def _read_texts(tree: Element, path: str) -> frozenset[str]:
    return frozenset(to_one_line(element.text_content()) for element in tree.xpath(path))


def choose_title(title: str, titles: PageTitles, *, site_name: str, url: str) -> str:
    """Return a title without the site's name, unless the title consists only of this name.

    Args:
        title: The title that trafilatura chose, such as a heading or `og:title`.
        site_name: The site's name in the page's metadata, or "".
        url: The URL of the page, or "".
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    site_names = {to_alphanumerics(name) for name in (site_name, *host.split("."))}
    first, *others = _SEPARATOR.split(titles.title_element)
    if others and title == others[-1] and title not in titles.headings:
        title = first if to_alphanumerics(first) not in site_names else title
    if to_alphanumerics(title) not in to_alphanumerics(titles.title_element):
        # The title may be the heading of the site or of a box, instead of the article's heading.
        candidates = [
            part
            for part in (titles.title_element, first, *others)
            if part in titles.all_headings and to_alphanumerics(part) not in {"", *site_names}
        ]
        title = max(candidates, key=len, default=title)
    parts = _SEPARATOR.split(title)  # the separators have odd indexes
    if len(parts) > 1 and to_alphanumerics(parts[-1]) in site_names:
        del parts[-2:]
    if len(parts) > 1 and to_alphanumerics(parts[0]) in site_names:
        del parts[:2]
    return "".join(parts)
