"""A cluster is named after a source, a tag or its distinctive words. No two names are equal."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.clustering.class_tfidf import TitledText, find_distinctive_words
from shared.clustering.naming import ClusterDescription, describe_clusters

BREAD = [
    "The sourdough starter needs flour and water every day.",
    "Feed the sourdough starter before you bake, or the bread stays flat.",
    "A hot oven and steam give the bread its crust; the sourdough starter gives it its taste.",
]
BOATS = [
    "Reef the mainsail before the wind grows too strong for the boat.",
    "A boat at anchor turns with the wind.",
    "The skipper reefs the mainsail and drops the anchor.",
]
GERMAN = [
    "Das Protokoll verschweigt, wer die Entscheidung getroffen hat.",
    "Jede Entscheidung steht im Protokoll, aber die Frage steht nirgends.",
    "Wer die Frage nicht kennt, versteht die Entscheidung nicht.",
]
WORDS = st.sampled_from(["oak", "ash", "elm", "fir", "yew", "bay", "box", "fig", "plum"])
TEXTS = st.lists(st.lists(WORDS, min_size=3, max_size=12).map(" ".join), min_size=1, max_size=5)


def make_passages(
    texts: Sequence[str], title: str = "Notes", tags: tuple[str, ...] = ()
) -> list[TitledText]:
    return [TitledText(title, text, tags) for text in texts]


def make_sources(texts: Sequence[str], tags: tuple[str, ...] = ()) -> list[TitledText]:
    """Return passages of different sources."""
    return [TitledText(f"Notes {number}", text, tags) for number, text in enumerate(texts)]


def test_keywords_distinguish_a_cluster_from_others() -> None:
    bread, boats, german, none = find_distinctive_words(
        [*map(make_passages, (BREAD, BOATS, GERMAN)), make_passages(["One of these never was."])], 3
    )
    assert bread == ["sourdough", "bread", "bake"]
    assert {"boat", "mainsail", "wind", "anchor"} > set(boats)
    assert set(german) == {"Entscheidung", "Frage", "Protokoll"}
    assert none == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RESULTS: Yeast rises. CONCLUSION: See https://example.org/yeast-lab.", {"Yeast"}),
        ("Siempre cuando tenemos levadura, también hacemos pan.", {"levadura", "pan"}),
        ("Inflammation is inflammatory.", {"Inflammation"}),
        ("寝る前のスマホをやめて、時間があった。", {"スマホ", "時間"}),
        ("三十公里之后身体就没有糖了,所以要提前吃。", set()),
    ],
)
def test_keywords_are_words_of_the_subject(text: str, words: set[str]) -> None:
    """No heading, address, word of any text or pair of characters, and one word a stem."""
    keywords, _ = find_distinctive_words([make_passages([text], ""), make_passages(BOATS)], 8)
    assert set(keywords) - {"rises", "See", "tenemos", "hacemos"} == words


def test_a_word_of_one_source_is_no_keyword_of_many_sources() -> None:
    texts = ["Katrin bakes bread.", "Bread needs yeast.", "Katrin and Katrin.", "Yeast and bread."]
    [keywords] = find_distinctive_words([make_sources(texts)], 8)
    assert keywords == ["bread", "Katrin", "Yeast"]
    [keywords] = find_distinctive_words([make_sources([*texts[:2], "Rye.", texts[3]])], 8)
    assert keywords == ["bread", "Yeast"]


def test_a_description_names_words_and_sources() -> None:
    clusters = [make_sources(BREAD), make_passages(BOATS, "Under Sail")]
    bread, boats = describe_clusters(clusters, [None, None])
    assert bread.name == "Sourdough, bread"
    assert bread.description.startswith("Passages about sourdough")
    assert bread.description.endswith(", from Notes 0, Notes 1 and another source.")
    assert boats.name == "Under Sail"
    assert boats.description.endswith(", from Under Sail.")
    cluster = [TitledText(title, BOATS[0]) for title in ("A", "B", "B", "C", "D")]
    [boats] = describe_clusters([cluster], [None])
    assert boats.description.endswith(", from B, A and 2 other sources.")


@pytest.mark.parametrize(
    ("passages", "name"),
    [
        (make_sources(BREAD, ("home/baking",)), "Baking, sourdough, bread"),
        (make_sources(BREAD, ("bread",)), "Bread, sourdough"),
        ([*make_passages(BREAD), *make_sources(BREAD[:1])], "Notes"),
        ([*make_passages(BREAD, tags=("baking",)), *make_sources(BREAD[:1])], "Baking, sourdough"),
        (make_passages(BREAD, tags=("baking",)), "Notes"),
        (make_sources(BREAD, ("reading",)), "Sourdough, bread"),
        (make_sources(["パン", "Pain", "хлеб"]), "Notes 0"),
    ],
    ids=[
        "tag",
        "tag is keyword",
        "main source",
        "tag of some",
        "sole source",
        "tag of all",
        "none",
    ],
)
def test_tags_and_titles_come_before_words(passages: list[TitledText], name: str) -> None:
    """A tag counts that other clusters have less."""
    others = make_sources(BOATS, ("reading",))
    description, _ = describe_clusters([passages, others], [None, None])
    assert description.name.startswith(name)


def test_clusters_of_one_source_have_different_names() -> None:
    clusters = [make_passages(BREAD), make_passages(BOATS), make_passages(["?!"])]
    names = [description.name for description in describe_clusters(clusters, [None] * 3)]
    assert names[0] == "Notes"
    assert names[1].startswith("Notes: ")
    assert names[2] == "Notes, 2"


@pytest.mark.parametrize(
    ("title", "shortened"),
    [
        ("読書の歴史" * 20, ("読書の歴史" * 20)[:49] + "…"),
        ("word\n" * 18, ("word " * 10).strip()[:49] + "…"),
        ("The End.", "The End"),
        ("?!", "?!"),
        (" . ", "a source"),
    ],
)
def test_a_description_shortens_titles(title: str, shortened: str) -> None:
    [description] = describe_clusters([make_passages(BOATS, title)], [None])
    assert description.description.endswith(f", from {shortened}.")


def test_an_existing_name_is_kept_and_stays_unique() -> None:
    kept_description = ClusterDescription("Notes", "By hand.", ("hand",))
    descriptions = describe_clusters(
        [make_passages(BREAD), make_passages(BREAD), make_passages(BOATS)],
        [kept_description, None, None],
    )
    assert descriptions[0] == kept_description
    assert len({description.name.casefold() for description in descriptions}) == 3


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_names_and_keywords_differ(clusters: list[list[str]]) -> None:
    descriptions = describe_clusters([*map(make_sources, clusters)], [None] * len(clusters))
    assert len({description.name.casefold() for description in descriptions}) == len(clusters)
    for description in descriptions:
        assert len({word.casefold() for word in description.keywords}) == len(description.keywords)


def test_clusters_without_words_or_passages_have_names() -> None:
    """Passages may be forgotten between the clustering and the naming."""
    clusters = [make_passages(["?!"]), make_passages(["..."]), []]
    descriptions = describe_clusters(clusters, [None] * 3)
    assert [description.name for description in descriptions] == ["Notes", "Notes, 2", "Passages"]
    assert descriptions[2] == ClusterDescription("Passages", "Passages.", ())
