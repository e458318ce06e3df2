"""Any name becomes a valid document id, and any bytes text for a URL; both stay different."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.core.base64url import from_base64url, to_base64url
from shared.core.ids import MAX_LENGTH, IdKind, has_kind, make_id, safe_id

VALID_ID = re.compile(r"[a-zA-Z0-9_-]{0,23}[a-zA-Z0-9-]", re.ASCII)

names = st.text().filter(str.strip)


@given(names)
@example("__x__")
@example("____")
@example("..")
@example("_/" * 40)
@example("\ud800")
@example("\u0661")
def test_any_name_becomes_a_valid_id_of_which_the_id_is_the_same(name: str) -> None:
    document_id = safe_id(name)
    assert VALID_ID.fullmatch(document_id)
    assert safe_id(document_id) == document_id


@given(st.from_regex(VALID_ID, fullmatch=True))
@example("a" * MAX_LENGTH)
@example("__x")
def test_a_valid_name_is_its_own_id(name: str) -> None:
    assert safe_id(name) == name


@given(st.lists(names.map(str.strip), min_size=2, max_size=2, unique=True))
@example(["a/b", "a-b"])
@example(["a b", "a\u00a0b"])
@example(["é", "e\u0301"])
@example(["a" * 25, "a" * 26])
@example(["__x__", "x"])
def test_two_names_never_share_an_id(pair: list[str]) -> None:
    name, other_name = pair
    assert safe_id(name) != safe_id(other_name)


def test_a_name_with_replaced_characters_gets_a_hash() -> None:
    assert safe_id("file-notes/day 1.md") == "file-notes-d-xl5mr7b6fxn"
    assert safe_id("walden") == safe_id(" walden\n") == "walden"


@given(st.sampled_from(IdKind), st.text())
def test_a_made_id_has_its_kind_and_12_characters(kind: IdKind, name: str) -> None:
    made = make_id(kind, name)
    assert re.fullmatch(r"[a-z][a-z2-7]{11}", made)
    assert [other for other in IdKind if has_kind(made, other)] == [kind]


@pytest.mark.parametrize("name", ["kitchen", "note-7", "k" * 13])
def test_another_id_has_no_kind(name: str) -> None:
    assert not has_kind(name, *IdKind)


@pytest.mark.parametrize("name", ["", " ", "\n\t", "\u00a0"])
def test_a_name_of_white_space_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must not be blank"):
        safe_id(name)


@given(st.binary())
def test_bytes_are_encoded_for_urls_and_decoded(content: bytes) -> None:
    assert from_base64url(to_base64url(content)) == content
    assert to_base64url(b"\xfb\xff") == "-_8"


@pytest.mark.parametrize("text", ["a", "a b", "a\nb=", "é", "a=b", "AAAAA"])
def test_text_that_is_not_encoded_bytes_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the messages differ
        from_base64url(text)
