"""A cluster is named after its most distinctive words; names are short and unique."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.clustering.class_tfidf import find_distinctive_words
from shared.clustering.naming import ClusterDescription, TitledText, describe_clusters

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


def make_passages(texts: list[str], title: str = "Notes") -> list[TitledText]:
    return [TitledText(title, text) for text in texts]


def test_keywords_distinguish_a_cluster_from_others() -> None:
    bread, boats = find_distinctive_words([BREAD, BOATS], 3)
    assert bread == ["sourdough starter", "bread", "bake"]
    assert {"boat", "mainsail", "wind", "anchor"} > set(boats)
    stop_words = ["One of the two never was on any of these."]
    assert find_distinctive_words([stop_words], 8) == [[]]
    german, _ = find_distinctive_words([GERMAN, BOATS], 3)
    assert set(german) == {"Entscheidung", "Frage", "Protokoll"}
    chinese, _ = find_distinctive_words([["知识库", "知识图谱"], BOATS], 3)
    assert "知识" in chinese


def test_a_description_names_words_and_sources() -> None:
    clusters = [make_passages(BREAD, "Bread at Home"), make_passages(BOATS, "Under Sail")]
    bread, _ = describe_clusters(clusters, [None, None])
    assert bread.name.startswith("Sourdough starter, ")
    assert bread.description.startswith("Passages about sourdough starter, ")
    assert bread.description.endswith(", from Bread at Home.")
    cluster = [TitledText(title, BOATS[0]) for title in ("A", "B", "B", "C", "D")]
    [boats] = describe_clusters([cluster], [None])
    assert boats.description.endswith(", from B, A and 2 other sources.")


@pytest.mark.parametrize(
    ("title", "shortened"),
    [
        ("読書の歴史" * 20, ("読書の歴史" * 20)[:39] + "…"),
        ("word\n" * 18, ("word " * 8).strip() + "…"),
        ("The End.", "The End"),
        ("?!", "?!"),
        (" . ", "a source"),
    ],
)
def test_a_description_shortens_titles(title: str, shortened: str) -> None:
    [description] = describe_clusters([make_passages(BOATS, title)], [None])
    assert description.description.endswith(f", from {shortened}.")


def test_an_existing_name_is_kept_and_stays_unique() -> None:
    words, _ = find_distinctive_words([BREAD, BOATS], 3)
    kept_description = ClusterDescription(", ".join(words).capitalize(), "By hand.", ("hand",))
    descriptions = describe_clusters(
        [make_passages(BREAD), make_passages(BREAD), make_passages(BOATS)],
        [kept_description, None, None],
    )
    assert descriptions[0] == kept_description
    assert len({description.name.casefold() for description in descriptions}) == 3


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_names_differ_and_have_three_to_six_words(clusters: list[list[str]]) -> None:
    descriptions = describe_clusters(
        [make_passages(texts) for texts in clusters], [None] * len(clusters)
    )
    assert len({description.name.casefold() for description in descriptions}) == len(clusters)
    for description in descriptions:
        assert len({word.casefold() for word in description.keywords}) == len(description.keywords)
        assert len(description.keywords) < 3 or 3 <= len(description.name.split()) <= 6


def test_clusters_without_words_or_passages_have_names() -> None:
    """Passages may be forgotten between the clustering and the naming."""
    clusters = [make_passages(["?!"]), make_passages(["..."]), []]
    descriptions = describe_clusters(clusters, [None] * 3)
    assert [description.name for description in descriptions] == ["Notes", "Notes, 2", "Passages"]
    assert descriptions[2] == ClusterDescription("Passages", "Passages.", ())
