"""The terms of a text are the stems and character pairs by which it is found."""

from unicodedata import normalize

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from shared.text.stop_words import AMBIGUOUS, ENGLISH, GERMAN
from shared.text.term_counts import TermCounts
from shared.text.terms import (
    MAX_TERM,
    count_terms,
    find_occurrences,
    find_variant_occurrences,
    find_variants,
    terms,
)

LATIN = (
    *("Häuser", "l\u2019homme", "don't", "the", "und", "der"),
    *("ALS", "ﬁne", "x" * 80, "3.5", "B12"),
)
SCRIPTS = ("東京都", "カナ", "ｶﾅ", "ที่บ้าน", "한국어", "क्षमा", "книга", "مكتبة", "βλέπω")
SIGNS = (
    *("\u0301", "\u0301" * 80, "\u00ad", "\u200d", "\ud800"),
    *("'", "\u2019", "_", " ", "\n", "👍🏽"),
)
# Words of many scripts, and characters that change where words end.
TEXTS = st.text() | st.lists(st.sampled_from(LATIN + SCRIPTS + SIGNS), min_size=5).map("".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n ... \u0301 \ud800", []),
        # An emoji, without its skin colour and selector; a flag has two letters.
        ("👍🏽❤\ufe0f 🚀launch 🇩🇪🇫🇷 © ↔", ["👍", "❤", "🚀", "launch", "🇩🇪", "🇫🇷"]),
        ("The cells were dividing", ["cell", "divid"]),  # stems, without stop words
        # An identifier is found by its words and as a whole.
        ("foo_bar v2.1 COVID-19", ["foo", "bar", "v2", "1", "covid", "19", "foo_bar"]),
        ("an_order() is __init__ed", ["ord", "init", "ed", "an_order", "init__ed"]),
        ("Darwin's l\u2019homme, I don't rock'n'roll", ["darwin", "homm", "rock", "roll"]),
        # A soft hyphen, a ligature and a full-width digit are normalized.
        ("exam\u00adple \ufb01ne \uff12", ["exampl", "fin", "2"]),
        ("TNF-β, 5 µm", ["tnf", "β", "5", "μm"]),  # the micro sign becomes the Greek letter
        # Scripts without spaces are found by pairs of characters.
        ("東京都に", ["東京", "京都", "都に"]),
        ("GPU训练 2024年", ["gpu", "训练", "2024", "年"]),
        ("ｶﾞｲﾄﾞ", ["ガイ", "イド"]),  # half-width letters become full-width
        ("漢" + "\u0301" * 80, ["漢" + "\u0301" * 63]),  # cut at MAX_TERM
        ("บ้าน", ["บ้า", "าน"]),
        ("학교에서", ["학교", "교에", "에서"]),
        # Stop words are dropped in their language only.
        ("war and peace", ["war", "peac"]),
        ("ER stress, ALS and the MIT", ["er", "stress", "al", "mit"]),
        ("Die Ursachen des Krieges waren nicht klar", ["ursach", "krieg", "klar"]),
        ("Ursachen der Krise", ["ursach", "kris"]),
        ("Das Leben mit dem Krebs", ["leb", "kreb"]),
        ("Cell, cells; CELL", ["cell"] * 3),
    ],
)
def test_a_text_has_the_expected_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the plain words, of a U-boat's crew.", ["uboat"]),
        ("getUserById XMLHttpRequest", ["get", "user", "id", "xml", "http", "requ"]),
        ("mRNA, DNAs and a PhD", ["rna", "dna", "ph"]),
        ("Node.js, HTTP/2 and/or TCP/IP 24/7", ["nodej", "http2"]),
        ("1200kg B12 10,000 1 200 1.5 2024-05-31", ["1200", "kg", "b", "12", "10000", "1200"]),
        ("C++ F# #tag", ["c++", "f#"]),
        ("state-of-the-art O\u2019Brien don't it's", ["stateoftheart", "obri"]),
        ("an_order 東京都12", []),
        ("x" * 40 + "-" + "y" * 40, []),
    ],
)
def test_a_text_has_the_expected_variants(text: str, expected: list[str]) -> None:
    variants = find_variants(text)
    assert variants == expected
    assert {term for term, _, _ in find_variant_occurrences(text)} <= {*variants, "東", "京", "都"}


def test_variants_and_titles_do_not_count_into_the_length() -> None:
    assert count_terms("a Well-being of well", "Well-being") == TermCounts(
        {"well": 4, "wellb": 3}, 2
    )
    assert count_terms("港町 it", "it") == TermCounts({"港町": 1, "港": 1, "町": 1}, 1)
    assert count_terms("do-it") == TermCounts({"doit": 1}, 1)
    assert count_terms("it") == TermCounts({}, 0)


FORMS = """
mutation mutations MUTATED
Haus Häuser Hauses Haeuser
Ursache Ursachen
Straße STRASSE Straßen
Poincaré poincare POINCARÉ
cafe\u0301 café cafe cafés
smørrebrød smorrebrod SMØRREBRØD
Łódź Lodz Lódz
Đorđević Dordevic
Þingvellir Thingvellir
Æsop aesop
œuvre Oeuvre
книга книгами
مكتبة المكتبات
लड़की लड़कियों
άνθρωπος άνθρωποι
mice mouse Mice
bacteria bacterium
"""


@pytest.mark.parametrize("forms", [*FORMS.strip().splitlines(), "Μαΐου " + "Μαΐου".upper()])
def test_the_forms_of_a_word_have_one_term(forms: str) -> None:
    assert len(set(terms(forms))) == 1


def test_stop_words_of_both_languages_are_ambiguous() -> None:
    assert AMBIGUOUS >= ENGLISH & GERMAN


@given(TEXTS)
def test_terms_are_short_and_have_no_punctuation(text: str) -> None:
    expected = terms(text)
    assert terms(normalize("NFC", text)) == expected == terms(normalize("NFD", text))
    for term in expected:
        assert 0 < len(term) <= MAX_TERM
        assert regex.search(r"[\p{L}\p{N}\p{So}]", term)
        term.encode()


@pytest.mark.parametrize("word", ["είτε", "ίδιο", "ικά", "έστε", "ηκε"])
def test_a_word_with_an_empty_stem_stays_a_term(word: str) -> None:
    [term] = terms(word)
    assert term


@given(st.lists(st.sampled_from(LATIN + SCRIPTS)).map(" ".join))
def test_a_text_has_the_same_terms_in_upper_and_lower_case(text: str) -> None:
    assert terms(text) == terms(text.upper()) == terms(text.lower())


@given(st.lists(st.sampled_from(LATIN + SCRIPTS)))
def test_query_and_document_give_a_word_the_same_terms(words: list[str]) -> None:
    """Stop words are not checked: the other words decide which of them are dropped."""
    all_terms = terms(" ".join(words))
    for word in words:
        if word.casefold() not in ENGLISH | GERMAN:
            assert set(terms(word)) <= set(all_terms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("The Cells", [("cell", "Cells")]),
        ("Darwin\u2019s COVID-19", [("darwin", "Darwin\u2019s"), ("covid", "COVID"), ("19", "19")]),
        ("東京都", [("東京", "東京"), ("京都", "京都")]),
        ("年", [("年", "年")]),
        ("บ้าน", [("บ้า", "บ้า"), ("าน", "าน")]),
        ("か\u3099い", [("がい", "か\u3099い")]),
        ("\ufb01ne", [("fin", "\ufb01ne")]),
    ],
)
def test_occurrences_have_the_spans_of_their_words(
    text: str, expected: list[tuple[str, str]]
) -> None:
    assert [(term, text[start:end]) for term, start, end in find_occurrences(text)] == expected


@given(TEXTS)
def test_occurrences_follow_each_other_within_the_text(text: str) -> None:
    matches = list(find_occurrences(text))
    assert sorted(matches, key=lambda match: match[1:]) == matches
    assert all(0 <= start < end <= len(text) for _, start, end in matches)
    assert all(term in terms(text[start:end]) for term, start, end in matches)


@given(
    st.lists(st.sampled_from(("Häuser", "cells", "東京都", "книга", "बाग", "한국어"))).map(" ".join)
)
def test_every_term_of_a_plain_text_has_an_occurrence(text: str) -> None:
    assert [term for term, _, _ in find_occurrences(text)] == terms(text)
