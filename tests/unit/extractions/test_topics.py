"""Each spelling or alias of a topic leads to one canonical name."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.extractions import topic_names
from shared.extractions.topic_names import (
    MAX_CHARACTERS,
    MAX_TOPICS,
    canonicalize_topic,
    canonicalize_topics,
    fold,
)

ALIASES_BY_TOPIC: dict[str, list[str]] = json.loads(
    (Path(topic_names.__file__).parent / "data" / "topic-aliases.json").read_text("utf-8")
)
CONFIGURED_ALIASES = {"K-8s": "kubernetes", "bread": "Baking", "a": "b", "b": "c", "c": "a"}
"""Configured aliases: one of a built-in topic, one of a new topic, and three in a cycle."""

NAMES = st.one_of(
    st.text(max_size=30),
    st.sampled_from([alias for aliases in ALIASES_BY_TOPIC.values() for alias in aliases]),
    st.sampled_from([*ALIASES_BY_TOPIC, *CONFIGURED_ALIASES, *CONFIGURED_ALIASES.values()]).map(
        str.title
    ),
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
def test_a_topic_has_one_canonical_name(name: str, expected: str) -> None:
    assert canonicalize_topic(name, {}) == expected


def test_configured_aliases_take_precedence() -> None:
    names = ("k 8S", "BREAD", "baking", *"abc")  # the last three are a cycle
    topics = [canonicalize_topic(name, CONFIGURED_ALIASES) for name in names]
    assert topics == ["kubernetes", "baking", "baking", "a", "a", "a"]
    assert canonicalize_topic("k8s", {"Kubernetes": "Clusters"}) == "clusters"
    assert canonicalize_topic("RAG", {"rag": "rag-time"}) == "rag time"


@pytest.mark.parametrize("name", ["\ufdfa" * 200, "x" * 81, "x" * 80 + " y", "x " * 200])
def test_a_name_that_is_too_long_is_not_a_topic(name: str) -> None:
    topic = canonicalize_topic(name, {})
    assert MAX_CHARACTERS < len(topic) <= MAX_CHARACTERS + 2
    assert canonicalize_topic(topic, {}) == topic
    assert canonicalize_topics([name], {}) == ()


@given(NAMES)
def test_a_canonical_topic_is_its_own_canonical_form(name: str) -> None:
    for aliases in ({}, CONFIGURED_ALIASES):
        canonical_name = canonicalize_topic(name, aliases)
        assert canonicalize_topic(canonical_name, aliases) == canonical_name


@given(NAMES)
def test_names_match_despite_case_hyphens_and_white_space(name: str) -> None:
    assert fold(f" {name}\t") == fold(name)
    other_spelling = fold(name).replace(" ", "_-")
    expected = canonicalize_topic(name, CONFIGURED_ALIASES)
    assert canonicalize_topic(other_spelling, CONFIGURED_ALIASES) == expected


def test_built_in_names_are_folded_and_lead_to_one_topic() -> None:
    topics = {name: topic for topic, names in ALIASES_BY_TOPIC.items() for name in (topic, *names)}
    assert len(topics) == sum(1 + len(names) for names in ALIASES_BY_TOPIC.values())
    assert {fold(name): canonicalize_topic(name, {}) for name in topics} == topics


def test_the_first_five_different_topics_are_used() -> None:
    too_long = "x" * (MAX_CHARACTERS + 1)
    names = ["LLM", "--", "llms", too_long, *("Rye", "Wheat", "Oats", "Salt", "Yeast")]
    expected = ("large language models", "rye", "wheat", "oats", "salt")
    assert canonicalize_topics(names, {}) == expected
    assert len(expected) == MAX_TOPICS
