"""Tokens are estimated without a model's tokenizer: words, pieces of long words, characters."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from shared.text.tokens import MAX_TOKEN, count_tokens, find_tokens

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
CHARACTERS = ("word", "e\u0301", "漢", "กำ", "각", "\u1100\u1161", "क्ष", "م", FAMILY, "👍🏽", "🇩🇪")
SIGNS = ("\u0301", "\u0301" * 40, "\u0600", "\u0d4e", "\u200d", "🇩", "\x1c", "\xa0", " ", "\n", ".")
# Characters, and signs that change where characters end.
TEXTS = st.text() | st.lists(st.sampled_from(CHARACTERS + SIGNS), min_size=10).map("".join)


def estimate_tokens(text: str) -> list[str]:
    return [text[start:end] for start, end in find_tokens(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \r\n\x1c\xa0\u3000", []),
        ("a chunk, twice", ["a", "chunk", ",", "twice"]),
        ("Donaudampfschiff", ["Donaud", "ampfsc", "hiff"]),  # six letters each
        ("cafe\u0301s e\u0301te\u0301", ["cafe\u0301s", "e\u0301te\u0301"]),
        ("漢字かなカナ", ["漢", "字", "か", "な", "カ", "ナ"]),
        ("GPU训练", ["GPU", "训", "练"]),
        ("ที่บ้าน", ["ที่", "บ้", "า", "น"]),
        ("한국어", ["한", "국", "어"]),
        ("क्षमा", ["क्ष", "मा"]),
        ("مكتبة", ["مكتبة"]),
        ("Ⓜ\u200d👩m", ["Ⓜ\u200d👩", "m"]),
        (f"ok {FAMILY}👍🏽🇩🇪🇫🇷", ["ok", FAMILY, "👍🏽", "🇩🇪", "🇫🇷"]),
        ("\u0301 a", ["\u0301", "a"]),
        ("\u0600 1", ["\u0600", "1"]),
    ],
)
def test_a_text_splits_into_words_characters_and_symbols(text: str, expected: list[str]) -> None:
    assert estimate_tokens(text) == expected


def test_an_endless_cluster_counts_by_its_length() -> None:
    assert count_tokens("a" + "\u0301" * 999) == 1_000 // MAX_TOKEN + 1


@given(TEXTS)
def test_tokens_are_all_of_a_text_but_its_white_space(text: str) -> None:
    tokens = estimate_tokens(text)
    assert "".join("".join(tokens).split()) == "".join(text.split())
    assert all(token == token.strip() != "" for token in tokens)
    inner_positions = {
        index
        for cluster in regex.finditer(r"\X", text)
        if len(cluster[0]) <= MAX_TOKEN
        for index in range(cluster.start() + 1, cluster.end())
        if not text[index - 1].isspace() and not text[index].isspace()
    }
    assert inner_positions & {end for _, end in find_tokens(text)} == set()


@given(TEXTS)
def test_a_cut_between_tokens_adds_no_tokens(text: str) -> None:
    spans = list(find_tokens(text))
    for number, (start, _) in enumerate(spans):
        assert count_tokens(text[start:]) <= len(spans) - number
