"""Tags are normalized to lower-case names, or rejected."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.errors import InvalidInput
from shared.traces.tags import normalize_tags

VALID_TAGS = st.text("abcxyz0189._-", min_size=1, max_size=30)


@given(st.lists(VALID_TAGS, max_size=20))
def test_case_width_outer_space_and_duplicates_are_ignored(tags: list[str]) -> None:
    full_width = {code: code + 0xFEE0 for code in range(33, 127)}
    variants = [f" \t{tag.upper().translate(full_width)}\n" for tag in tags]
    assert normalize_tags(variants) == normalize_tags(tags) == tuple(dict.fromkeys(tags))


@given(st.lists(st.text(max_size=12), max_size=25))
def test_normalized_tags_are_valid_and_stay_the_same(raw_tags: list[str]) -> None:
    with suppress(InvalidInput):
        tags = normalize_tags(raw_tags)
        assert len(tags) == len(set(tags)) <= 20
        assert all(re.fullmatch(r"[a-z0-9._-]+", tag) for tag in tags)
        assert normalize_tags(tags) == tags


@pytest.mark.parametrize(
    ("tag", "normalized"),
    [
        ("Google Cloud", "google-cloud"),
        ("a \n b", "a-b"),
        ("\u212aubernetes", "kubernetes"),  # U+212A, the Kelvin sign, normalizes to the letter k
    ],
)
def test_inner_white_space_becomes_a_hyphen(tag: str, normalized: str) -> None:
    assert normalize_tags([tag]) == (normalized,)


def test_every_invalid_tag_is_named_by_its_index() -> None:
    with pytest.raises(InvalidInput) as caught:
        normalize_tags(["c++", "python", "c#", ""])
    assert caught.value.details.keys() == {"tags.0", "tags.2", "tags.3"}


def test_at_most_twenty_different_tags_are_accepted() -> None:
    tags = [f"t{number}" for number in range(20)]
    assert len(normalize_tags(tags * 3)) == 20
    with pytest.raises(InvalidInput) as caught:
        normalize_tags([*tags, "one-more"])
    assert caught.value.details.keys() == {"tags"}


def test_tag_that_normalization_lengthens_is_rejected() -> None:
    with pytest.raises(InvalidInput):
        normalize_tags(["㎉" * 60])
