"""Topics: many spellings, one name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.extractions import topic_names
from shared.extractions.topic_names import LONGEST, MOST, folded, normal_topic, normal_topics

TABLE: dict[str, list[str]] = json.loads(
    (Path(topic_names.__file__).parent / "data" / "topic-aliases.json").read_text("utf-8")
)
OWN = {"K-8s": "kubernetes", "bread": "Baking", "a": "b", "b": "c", "c": "a"}
"""A deployment's aliases: one of ours, one of its own, and three that chase each other."""

names = st.one_of(
    st.text(max_size=30),
    st.sampled_from([alias for aliases in TABLE.values() for alias in aliases]),
    st.sampled_from([*TABLE, *OWN, *OWN.values()]).map(str.title),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("K8S", "kubernetes"),
        ("LLMs", "large language models"),
        ("large-language_model", "large language models"),
        ("Retrieval-Augmented Generation", "rag"),
        ("  Vector   DB\n", "vector databases"),
        ("prioritisation", "prioritization"),
        ("C++", "c++"),
        ("C#", "c#"),
        (".NET", ".net"),
        ("#agents", "agents"),
        ("\uff32\uff21\uff27", "rag"),
        ("end\u2011to\u2011end tests", "end to end testing"),
        ("Sourdough", "sourdough"),
        ("\u00dcBUNG", "\u00fcbung"),
        ("--", ""),
        (" ", ""),
    ],
)
def test_a_topic_has_one_name(name: str, expected: str) -> None:
    assert expected == normal_topic(name, {})


@pytest.mark.parametrize("name", ["\ufdfa" * 200, "x" * 81, "x" * 80 + " y", "x " * 200])
def test_what_is_too_long_for_a_topic_is_no_topic(name: str) -> None:
    topic = normal_topic(name, {})
    assert LONGEST < len(topic) <= LONGEST + 2
    assert (topic, ()) == (normal_topic(topic, {}), normal_topics([name], {}))


def test_the_settings_know_other_names_too_and_are_asked_first() -> None:
    assert ["kubernetes", "baking", "baking"] == [
        normal_topic(name, OWN) for name in ("k 8S", "BREAD", "baking")
    ]
    assert "clusters" == normal_topic("k8s", {"Kubernetes": "Clusters"})
    assert "rag time" == normal_topic("RAG", {"rag": "rag-time"})


def test_names_that_stand_for_each_other_are_all_one() -> None:
    assert {"a"} == {normal_topic(name, OWN) for name in "abc"}


@given(names)
def test_a_normal_topic_is_its_own_normal_form(name: str) -> None:
    for aliases in ({}, OWN):
        once = normal_topic(name, aliases)
        assert once == normal_topic(once, aliases)


@given(names)
def test_case_hyphens_and_white_space_make_no_other_topic(name: str) -> None:
    assert folded(name) == folded(f" {name}\t")
    assert normal_topic(name, OWN) == normal_topic(folded(name).replace(" ", "_-"), OWN)


@pytest.mark.parametrize("own", TABLE)
def test_the_table_is_folded_and_no_name_is_an_alias(own: str) -> None:
    assert [own, *TABLE[own]] == [folded(name) for name in (own, *TABLE[own])]
    assert {own} == {normal_topic(name, {}) for name in (own, *TABLE[own])}


def test_an_alias_stands_for_one_topic() -> None:
    aliases = [alias for each in TABLE.values() for alias in each]
    assert len(set(aliases)) == len(aliases)


def test_the_first_few_different_topics_count() -> None:
    written = ["LLM", "--", "llms", "x" * (LONGEST + 1), "Rye", "Wheat", "Oats", "Salt", "Yeast"]
    expected = ("large language models", "rye", "wheat", "oats", "salt")
    assert (expected, MOST) == (normal_topics(written, {}), len(expected))
