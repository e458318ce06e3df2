"""Texts that differ only in their writing are one; a number, sign or order may correct."""

import pytest

from shared.text.corrections import may_correct
from shared.text.folding import fold_text, hash_texts


@pytest.mark.parametrize(
    ("text", "other"),
    [
        # Another number
        ("Set the timeout to 5 s.", "Set the timeout to 50 s."),
        ("The freezer is at 5 degrees.", "The freezer is at -5 degrees."),
        ("Needs Python 3.11 or newer.", "Needs Python 3.12 or newer."),
        ("Retry three times.", "Retry four times."),
        ("Den Teig zwei Stunden ruhen lassen.", "Den Teig drei Stunden ruhen lassen."),
        ("重试三次", "重试五次"),
        # A negation
        ("Use retries.", "Do not use retries."),
        ("Use retries.", "Don\u2019t use retries."),
        ("Always log the body.", "Never log the body."),
        ("Deploy with a freeze.", "Deploy without a freeze."),
        ("Das Gerät ist wasserdicht.", "Das Gerät ist nicht wasserdicht."),
        ("Es gibt eine Garantie.", "Es gibt keine Garantie."),
        ("Il faut relancer.", "Il ne faut pas relancer."),
        ("Hay que reintentar.", "No hay que reintentar."),
        ("应该重试", "不应该重试"),
        ("再試行する", "再試行しない"),
        ("再試行します", "再試行しません"),
        # Another order, or a sign
        ("Alice reports to Bob.", "Bob reports to Alice."),
        ("First sort, then filter.", "First filter, then sort."),
        ("小明向小红汇报", "小红向小明汇报"),
        ("Write it in C.", "Write it in C++."),
        ("Keep files that match x", "Keep files that match !x"),
    ],
)
def test_a_text_may_correct_another_and_the_other_way_round(text: str, other: str) -> None:
    assert may_correct(text, other)
    assert may_correct(other, text)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Use retries.", "use  RETRIES"),
        ("First sort, then filter.", "First sort then filter"),
        ("Do not use retries.", "Don't use any retries."),
        ("Retry three times at most.", "At most 3 times, retry it."),
        ("Encode it as utf-8.", "Encode the file as utf-8."),
        ("The surrogate as primary key.", "As primary key, a surrogate."),
    ],
)
def test_a_paraphrase_is_no_correction(text: str, other: str) -> None:
    assert not may_correct(text, other)


@pytest.mark.parametrize(
    "text",
    ["rye bread keeps", "  Rye\tbread\n keeps. ", "RYE BREAD\u00a0KEEPS", "rye bread keeps。"],
)
def test_spaces_case_and_a_full_stop_fold(text: str) -> None:
    assert fold_text(text) == "rye bread keeps"


def test_ways_to_write_a_character_fold() -> None:
    assert fold_text("Cafe\u0301") == fold_text("caf\u00e9")


@pytest.mark.parametrize(
    ("text", "other"),
    [
        *(("5", "-5"), ("C", "C++"), ("x", "!x"), ("Maße", "Masse"), ("5 m²", "5 m2")),
        *(("On?", "On!"), ("Wait.", "Wait..."), ("a b", "ab")),
    ],
)
def test_a_sign_does_not_fold(text: str, other: str) -> None:
    assert fold_text(text) != fold_text(other)


def test_texts_are_hashed_one_by_one() -> None:
    assert hash_texts("Rye.", None) == hash_texts("rye", None)
    hashes = {hash_texts("a", "b"), hash_texts("b", "a"), hash_texts("a b"), hash_texts("a", None)}
    assert len(hashes) == 4
