"""A text may correct a similar one by a number, a negation, a sign or the order of its words."""

from __future__ import annotations

import pytest

from shared.text.corrections import may_correct


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Set the timeout to 5 s.", "Set the timeout to 50 s."),
        ("The freezer is at 5 degrees.", "The freezer is at -5 degrees."),
        ("Needs Python 3.11 or newer.", "Needs Python 3.12 or newer."),
        ("Retry three times.", "Retry four times."),
        ("Den Teig zwei Stunden ruhen lassen.", "Den Teig drei Stunden ruhen lassen."),
        ("重试三次", "重试五次"),
    ],
)
def test_another_number_is_a_correction(text: str, other: str) -> None:
    assert may_correct(text, other)
    assert may_correct(other, text)


@pytest.mark.parametrize(
    ("text", "other"),
    [
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
    ],
)
def test_a_negation_is_a_correction(text: str, other: str) -> None:
    assert may_correct(text, other)
    assert may_correct(other, text)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Alice reports to Bob.", "Bob reports to Alice."),
        ("First sort, then filter.", "First filter, then sort."),
        ("小明向小红汇报", "小红向小明汇报"),
        ("Write it in C.", "Write it in C++."),
        ("Keep files that match x", "Keep files that match !x"),
    ],
)
def test_the_same_words_in_another_order_are_a_correction(text: str, other: str) -> None:
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
