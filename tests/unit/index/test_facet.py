"""Facets are the values by which passages are filtered, such as a tag, an author or a month."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.index.facets import (
    HAS_CARD,
    Facet,
    Kind,
    make_month_facet,
    make_named_facet,
    make_path_facets,
    parse_facet_id,
    select_vector_index_facets,
)
from shared.knowledge.knowledge_card import KnowledgeCard
from tests.support.knowledge import BAKING, chunk_source

KINDS = st.sampled_from(Kind)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)
FACETS = st.builds(Facet, KINDS, TEXTS)
with_200_examples = settings(max_examples=200)
CHUNK = replace(chunk_source(BAKING).chunks[0], dated_at=datetime(2024, 5, 31, tzinfo=UTC))


@with_200_examples
@given(FACETS, FACETS)
def test_an_id_is_valid_in_firestore_and_unique(facet: Facet, other_facet: Facet) -> None:
    assert "/" not in facet.id
    assert len(facet.id.encode()) <= 400
    assert facet.id.startswith(f"{facet.kind}:")
    assert (facet.id == other_facet.id) == (facet == other_facet)


@pytest.mark.parametrize(
    ("key", "other_key"), [("/", "%2F"), ("%", "%25"), ("%2F", "%252F"), ("x" * 999, "x" * 998)]
)
def test_keys_with_similar_encodings_have_different_ids(key: str, other_key: str) -> None:
    assert len(Facet(Kind.TAG, "字" * 200).id.encode()) <= 400
    assert Facet(Kind.TAG, key).id != Facet(Kind.TAG, other_key).id


@with_200_examples
@given(KINDS, TEXTS.filter(str.strip))
def test_an_id_and_a_name_lead_back_to_the_facet(kind: Kind, name: str) -> None:
    facet = make_named_facet(kind, name)
    assert parse_facet_id(facet.id, name) == facet
    long_facet = make_named_facet(kind, name * 20)
    assert make_named_facet(kind, long_facet.key) == long_facet


def test_a_complete_id_needs_no_name() -> None:
    facet = Facet(Kind.SOURCE, "Notes-1")
    assert parse_facet_id(facet.id, "My notes") == facet


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        *(
            (Kind.TAG, name, "deep work")
            for name in (" deep\u00a0 work\n", "\uff24eep work", "DEEP\tWORK")
        ),
        (Kind.TAG, "#project/alpha", "project/alpha"),
        (Kind.TAG, "C#", "c#"),
        (Kind.AUTHOR, "Helm, Ann", "ann helm"),
        (Kind.AUTHOR, "García Márquez,Gabriel", "gabriel garcía márquez"),
        (Kind.AUTHOR, "Helm, Ann, Sartre, Jean-Paul", "helm, ann, sartre, jean-paul"),
        (Kind.CATEGORY, "#a, b", "#a, b"),
    ],
)
def test_names_are_folded_by_their_kind(kind: Kind, name: str, key: str) -> None:
    assert make_named_facet(kind, name) == Facet(kind, key)


def test_a_tag_has_the_facets_of_its_parents() -> None:
    facets = make_path_facets(Kind.TAG, "Project/Beta/hull")
    assert {facet.key: name for facet, name in facets.items()} == {
        "project/beta/hull": "Project/Beta/hull",
        "project/beta": "Project/Beta",
        "project": "Project",
    }


def test_a_name_that_folding_makes_too_long_is_cut() -> None:
    # This ligature folds to 18 characters.
    facet = make_named_facet(Kind.TAG, "\ufdfa" * 200)
    assert len(facet.key.encode()) <= 1_200
    assert make_named_facet(Kind.TAG, "\ufdfa" * 201) == facet
    assert make_named_facet(Kind.TAG, facet.key) == facet
    assert parse_facet_id(facet.id, "\ufdfa" * 200) == facet


def test_names_that_differ_in_the_300th_character_are_two_facets() -> None:
    bread_emojis = "\U0001f35e" * 299  # four bytes each, so just below the limit of 1,200 bytes
    first_facet = make_named_facet(Kind.TAG, f"{bread_emojis}a")
    second_facet = make_named_facet(Kind.TAG, f"{bread_emojis}b")
    assert first_facet != second_facet


def test_a_month_facet_uses_the_dates_own_time_zone() -> None:
    east = timezone(timedelta(hours=9))
    assert make_month_facet(datetime(2024, 6, 1, 8, tzinfo=east)) == Facet(Kind.MONTH, "2024-06")


def test_a_chunk_has_the_facets_of_its_fields() -> None:
    assert {facet.id: name for facet, name in CHUNK.facets.items()} == {
        "source:baking": "Bread at Home",
        "title:bread at home": "Bread at Home",
        "category:books": "books",
        "author:ida loaf": "Ida Loaf",
        "tag:food": "food",
        "tag:dough": "dough",
        "month:2024-05": "May 2024",
        "language:en": "en",
        "position:first": "first",
    }
    chunk = replace(CHUNK, cluster_id=("c1", "c2"), knowledge_card=KnowledgeCard("Knead."))
    added_facets = set(chunk.facets) - set(CHUNK.facets)
    assert added_facets == {Facet(Kind.CLUSTER, "c1"), Facet(Kind.CLUSTER, "c2"), HAS_CARD}


def test_blank_missing_and_repeated_values_have_no_facets() -> None:
    chunk = replace(CHUNK, tags=(" ", "", "Rye", "rye"), author=None, category="", dated_at=None)
    assert [(facet.kind, facet.key) for facet in chunk.facets if facet.kind is Kind.TAG] == [
        (Kind.TAG, "rye")
    ]
    kinds = {facet.kind for facet in chunk.facets}
    assert kinds == {Kind.SOURCE, Kind.TITLE, Kind.LANGUAGE, Kind.POSITION, Kind.TAG}


def test_the_vector_index_has_no_entry_for_a_card() -> None:
    facets = ["tag:card", HAS_CARD.id, "cluster:card:yes"]
    assert select_vector_index_facets(facets) == ["tag:card", "cluster:card:yes"]
