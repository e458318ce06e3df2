"""The title of a page is that of its article, and not the name of the site."""

from collections.abc import Sequence

import pytest

from functions.jobs.ingest.readers.html.title import PageTitles, choose_title


def choose(
    title: str,
    title_element: str,
    *,
    site_name: str = "",
    url: str = "",
    headings: Sequence[str] = (),
) -> str:
    """Choose between an article's title and its page's `title` element."""
    titles = PageTitles(title_element, frozenset(headings))
    return choose_title(title, titles, site_name=site_name, url=url)


@pytest.mark.parametrize("separator", [" | ", "|", " - ", " – ", " — ", " · "])  # noqa: RUF001
def test_a_site_name_that_heads_the_page_is_not_the_title(separator: str) -> None:
    title_element = f"Reefing early{separator}Sailing Weekly"
    assert choose("Sailing Weekly", title_element) == "Reefing early"


@pytest.mark.parametrize(
    ("site_name", "headings"), [("Sailing Weekly", []), ("", ["Reefing early"])]
)
def test_a_site_name_before_the_title_is_removed(site_name: str, headings: list[str]) -> None:
    title_element = "Sailing Weekly | Reefing early"
    title = choose("Reefing early", title_element, site_name=site_name, headings=headings)
    assert title == "Reefing early"


@pytest.mark.parametrize(
    ("title", "site_name", "url", "expected"),
    [
        ("Reefing - Wikipedia", "", "https://en.wikipedia.org/wiki/Reefing", "Reefing"),
        ("Reefing | The Harbour Times", "The Harbour Times", "", "Reefing"),
        ("GitHub - helm/reef: Sails", "GitHub", "https://github.com/helm/reef", "helm/reef: Sails"),
        ("Wind - a study – Harbour Notes", "", "https://harbournotes.example", "Wind - a study"),  # noqa: RUF001
        ("Wind - a study", "Harbour Notes", "https://harbournotes.example", "Wind - a study"),
        ("Harbour Notes", "Harbour Notes", "https://harbournotes.example", "Harbour Notes"),
        ("Long-term plans", "", "https://[broken", "Long-term plans"),
        ("", "", "", ""),
    ],
)
def test_a_site_name_is_removed_from_a_title(
    title: str, site_name: str, url: str, expected: str
) -> None:
    assert choose(title, title, site_name=site_name, url=url) == expected
