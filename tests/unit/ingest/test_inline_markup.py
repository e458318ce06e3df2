"""Superscripts, quotations and line breaks in code keep their meaning in plain text."""

import pytest
from lxml import html

from functions.jobs.ingest.readers.html.blocks import read_blocks
from functions.jobs.ingest.readers.html.inline_markup import replace_inline_markup


def read_markup(markup: str) -> list[str]:
    """Return the blocks of a part of a page."""
    tree = html.document_fromstring(f"<body>{markup}</body>")
    replace_inline_markup(tree)
    return [block.text for block in read_blocks(tree)]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("10<sup>6</sup> m<sup>2</sup>", "10^6 m^2"),
        ("10<sup>-6</sup> km<sup>2</sup>", "10^-6 km^2"),
        ("<i>E</i> = <i>mc</i><sup>2</sup>", "E = mc^2"),
        ("<b>2<sup><i>n</i>+1</sup></b>", "2^n+1"),
        ("(a+b)<sup>2</sup>, Ca<sup>2+</sup>", "(a+b)^2, Ca^2+"),
        ("the 1<sup>st</sup> and 19<sup>e</sup> Reef<sup>TM</sup>", "the 1st and 19e ReefTM"),
        ("<a href='/x'>ten km<sup>2</sup></a>", "ten km^2"),
        ("H<sub>2</sub>O", "H2O"),
        ("<sup>1</sup> Says Bob.", "1 Says Bob."),
        ("<sup>a<sup>b</sup></sup> 2<sup>n<sup>2</sup></sup>", "ab 2^n2"),
        (f"2<sup>{'1' * 99}!</sup>", f"2{'1' * 99}!"),
    ],
)
def test_exponents_are_written_with_a_caret(markup: str, text: str) -> None:
    assert read_markup(f"<p>{markup}</p>") == [text]


@pytest.mark.parametrize(
    "note",
    [
        *("<sup>1</sup>", "<sup>12</sup>", "<sup>1, 2</sup>", "<sup>[3]</sup>", "<sup>*</sup>"),
        *("<sup><a href='#n'>1</a></sup>", "<a href='#n'><sup>iv</sup></a>"),
    ],
)
@pytest.mark.parametrize("sentence", ["Reef early{}, then wait.", "Reef early, then wait.{}"])
def test_numbers_of_notes_are_left_out(sentence: str, note: str) -> None:
    assert read_markup(f"<p>{sentence.format(note)}</p>") == [sentence.format("")]


def test_a_quotation_in_a_sentence_has_quotation_marks() -> None:
    assert read_markup("<p>He said: <q>Reef <i>early</i></q>, and <q>“wait”</q>. <q></q></p>") == [
        "He said: “Reef early”, and “wait”."
    ]


@pytest.mark.parametrize(
    "code",
    [
        "<pre><code>def reef():<br>    pass<br></code></pre>",
        "<pre>def reef():<br/>\n    pass</pre>",
        "<code>def reef():<br>    pass</code>",
        "<div><code>def reef():\n    pass</code></div>",
    ],
)
def test_line_breaks_in_code_are_kept(code: str) -> None:
    assert read_markup(code) == ["def reef():\n    pass"]


def test_code_in_a_sentence_is_joined_to_one_line() -> None:
    markup = "<p>Call <code>reef(\n  <b>wind</b>\n)</code> early.</p>"
    assert read_markup(markup) == ["Call reef( wind ) early."]
