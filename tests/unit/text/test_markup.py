"""A text in Markdown becomes plain text: its syntax is removed, and its words stay."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.text.markup import to_plain_line, to_plain_text
from shared.text.sentences import split_sentences
from tests.support.profiling import count_calls

TEXTS_WITH_MARKS = st.text(alphabet='ab \n\t*_~=`#>|<![]()\\-^:/é1.&;"${', max_size=200)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("# **Bold** title ##", "Bold title"),
        ("- [ ] Milk\n- [x] Bread\n1. [/] Tea", "- Milk\n- Bread\n1. Tea"),
        ("> [!tip]- Title\n> Body ==marked== ~~gone~~", "Title\nBody marked gone"),
        ("> A quotation, where 2 > 1", "A quotation, where 2 > 1"),
        ("[words](https://example.com/a_(b) 'title') [more](<a b.md>)", "words more"),
        ("![a picture](p.png) [![badge](https://a/b.svg)](https://c)", "a picture badge"),
        ("[[a/Note#Part|words]] [[a/Note#Part]] [[Note#^37066d]]", "words Note > Part Note"),
        ("See [[#^elbow]] and [[#Pump]].", "See elbow and Pump."),
        ("before ![[picture.png]]", "before "),
        ("a <!-- comment --> b", "a  b"),
        ("***both*** and **a *b* c**, (**d**).", "both and a b c, (d)."),
        ("*over\ntwo lines*", "over\ntwo lines"),
        ("**日本**語", "日本語"),
        (
            "snake_case, 2*3*4, 2**8, *args and **kwargs",
            "snake_case, 2*3*4, 2**8, *args and **kwargs",
        ),
        ("a == b and \\*not emphasis\\*", "a == b and *not emphasis*"),
        ("`a*b*c` and ``x `*y*` z``", "`a*b*c` and ``x `*y*` z``"),
        ("$f(x)_{1} + g(y)_{2}$ and **$[a](b)_{c}$**", "$f(x)_{1} + g(y)_{2}$ and $[a](b)_{c}$"),
        (r"$$\{x\} \# \$_1$$ and $a^{2}$th", r"$$\{x\} \# \$_1$$ and $a^{2}$th"),
        ("$5 or *6* $ or $*7*$, $a _b_ $ \\$_c_ _d_$", "$5 or 6 $ or $7$, $a b $ \\$c d$"),
        ("a\n---\nb\n* * *\n| a |\n|---|", "a\n\nb\n\n| a |\n"),
        ("One.[^1] Two[^note-2]; [three[^3]](https://a/b).", "One. Two; three."),
        ("[^1]: The *source*.", "The source."),
        ("Two^[in place] and 2^[1]; <ann@example.com>", "Two[in place] and 2[1]; ann@example.com"),
        ("[the text][reference], [text][] and ![a picture][p]", "the text, text and a picture"),
        ("[1] and [2][3], table[row][column]", "[1] and [2][3], table[row][column]"),
        (
            '[a]: https://a/b "Title"\n[b]: <b c.md>\n[c]: other.md\n[Ann]: hello.',
            "\n\n\n[Ann]: hello.",
        ),
        (
            'One<br>two<br/>three, H<sub>2</sub>O, <span style="color: red">red</span>',
            "One two three, H2O, red",
        ),
        (
            "<details open>\n<summary>More</summary>\n<img src=\"a.png\" alt='b'>\n</details>",
            " \n More \n \n ",
        ),
        ("<b>bold</b> and <U>under</U>, but a<q>c and <i>d", "bold and under, but a<q>c and <i>d"),
        ("Tom&nbsp;&amp;&#32;Jerry &lt;br&gt; R&D; AT&T", "Tom & Jerry <br> R&D; AT&T"),
        (
            "a < b and c > d; a <b and c> d; List<T>, <name>",
            "a < b and c > d; a <b and c> d; List<T>, <name>",
        ),
        (
            "`a<br>b &amp; c[^1]` and <https://example.com/a>",
            "`a<br>b &amp; c[^1]` and https://example.com/a",
        ),
    ],
)
def test_syntax_is_removed_and_words_stay(text: str, plain: str) -> None:
    assert to_plain_text(text) == plain


CODE = "f(**b**)<br>&amp;[^1]\n# c\n[d]: https://e"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (f"**a**\n```py\n{CODE}\n```\n**d**", f"a\n\n{CODE}\n\nd"),
        ("> ~~~~\n> **b**\n> ~~~\n> ~~~~\n> **c**", "\n**b**\n~~~\n\nc"),
        # Indented code stays, but not inside a list.
        ("Code:\n\n    f(**b**)<br>\n\n    &amp;", "Code:\n\n    f(**b**)<br>\n\n    &amp;"),
        ("- **a**\n\n    More **b**.", "- a\n\n    More b."),
    ],
)
def test_code_stays_as_it_is_without_its_fences(text: str, plain: str) -> None:
    assert to_plain_text(text) == plain
    assert to_plain_line("**a**\n```\n**b**") == "a b"  # no line of one line is code


def test_sentences_have_no_syntax() -> None:
    text = (
        "> [!note] A title\n> It is ==good==.\n\n- [ ] Knead the **dough**\n\n"
        "Where wheat > rye, see [[a|b]].\n#bread #rye/dark\n"
        "A <u>slow</u>&nbsp;rise[^1] is [best][b].<br>Wait.\n\n"
        "[^1]: Twelve hours.\n[b]: https://example.com/best"
    )

    assert split_sentences(text) == [
        "It is good.",
        "Knead the dough",
        "Where wheat > rye, see b.",
        "A slow rise is best.",
        "Wait.",
        "Twelve hours.",
    ]


@given(TEXTS_WITH_MARKS)
def test_plain_text_has_no_characters_that_the_text_lacks(text: str) -> None:
    plain = to_plain_text(text)
    assert not Counter(plain.replace(" > ", " ")) - Counter(text) - Counter("\n")


@given(st.text(alphabet="ab .,é\n"))
def test_a_text_without_syntax_stays_as_it_is(text: str) -> None:
    assert to_plain_text(text) == text


@pytest.mark.parametrize(
    "part",
    [
        *("[", "[a](", "[x](a ", "`a", "*a ", "**a** ", "<!--", "> ", '[a](b "c', "[[a"),
        *("- [ ] x\n", "[^", "[a][", "[^a]: ", "[a]: ", "<https:"),
        *("<br ", '<b a="', "<b a=b ", "&", "&a", "$", "$a_", "$a_ ", "$\\", "\\$", "$a_$"),
    ],
)
def test_hostile_texts_take_linear_time(part: str) -> None:
    calls = count_calls(lambda: to_plain_text(part * 1_000))
    calls_for_twice_the_text = count_calls(lambda: to_plain_text(part * 2_000))
    # Linear work makes twice as many calls, quadratic work four times as many.
    assert calls_for_twice_the_text <= 20 + 2.5 * calls


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("![](https://example.com/a/figure-1.png)", "figure-1.png"),
        ("![](one.png)\n![](<two.png> 'Two')", "one.png two.png"),
        ("![A sail](sail.png)", "A sail"),
        ("The sail ![](sail.png)", "The sail"),
        ("![[sail.png]]", "![[sail.png]]"),
    ],
)
def test_a_text_of_images_alone_is_named_after_their_files(text: str, line: str) -> None:
    assert to_plain_line(text) == line
