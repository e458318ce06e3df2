"""Formulas of web pages become TeX, in each of the forms in which pages contain them."""

import pytest
from lxml import html

from functions.jobs.ingest.readers.html.formulas import replace_formulas

TEX = r"x^{2}"
MATHML = "<msup><mi>x</mi><mn>2</mn></msup>"
ANNOTATION = f'<annotation encoding="application/x-tex">{TEX}</annotation>'
WIKIPEDIA = (
    '<span class="mwe-math-element"><span style="display: none;"><math alttext="{\\displaystyle'
    f' {TEX}}}"><semantics>{MATHML}{ANNOTATION}</semantics></math></span><img alt="x"></span>'
)
KATEX = (
    f'<span class="katex"><span class="katex-mathml"><math><semantics>{MATHML}{ANNOTATION}'
    '</semantics></math></span><span class="katex-html" aria-hidden="true">x2</span></span>'
)
MATHJAX_2 = f'<script type="math/tex; mode=display">{TEX}</script>'
MATHJAX_3 = (
    '<mjx-container class="MathJax"><mjx-math aria-hidden="true"></mjx-math>'
    f"<mjx-assistive-mml><math>{MATHML}</math></mjx-assistive-mml></mjx-container>"
)


@pytest.mark.parametrize(
    "formula",
    [
        *(WIKIPEDIA, KATEX, MATHJAX_2, MATHJAX_3),
        f'<math alttext="{TEX}">{MATHML}</math>',
        f'<math alttext="x squared">{MATHML}</math>',
        f'<math alttext="{TEX}"></math>',
    ],
)
def test_a_formula_becomes_tex(formula: str) -> None:
    tree = html.fromstring(f"<p>The area {formula} grows.</p>")
    replace_formulas(tree)
    assert tree.text_content() == "The area $x^{2}$ grows."


@pytest.mark.parametrize(
    ("mathml", "text"),
    [
        ("<mi>x</mi><mo>=</mo><mn>1</mn>", "x=1"),
        ("<mfrac><mi>a</mi><mrow><mn>2</mn><mi>b</mi></mrow></mfrac>", r"$\frac{a}{2b}$"),
        ("<msqrt><mi>a</mi><mo>+</mo><mi>b</mi></msqrt>", r"$\sqrt{a+b}$"),
        ("<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>", "$x_{i}^{2}$"),
        ("<mroot><mi>x</mi><mn>3</mn></mroot>", r"$\sqrt[3]{x}$"),
        ("<msup><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></msup>", "${a+b}^{2}$"),
        ("<msup><msup><mi>a</mi><mn>2</mn></msup><mn>3</mn></msup>", "${a^{2}}^{3}$"),
        ("<msup><mrow><mi>a</mi></mrow><mn>2</mn></msup>", "$a^{2}$"),
        ("<mi>f</mi><mfenced><mi>a</mi><mi>b</mi></mfenced>", "f(a,b)"),
        ("<mfenced open='[' separators=';,'><mi>a</mi><mi>b</mi><mi>c</mi></mfenced>", "[a;b,c)"),
        ("<mfenced separators=';'><mi>a</mi><mi>b</mi><mi>c</mi></mfenced>", "(a;b;c)"),
        ("<mfenced><mi>a</mi></mfenced>", "(a)"),
        ("<mi>y</mi><mtext> if </mtext><mi>z</mi>", "y if z"),
        (
            "<msup><mi>y</mi><mn>2</mn></msup><mtext>&#160;if</mtext><mi>z</mi>",
            r"$y^{2} \text{ if} z$",
        ),
        ("<msub><mi>x</mi><mtext>max</mtext></msub>", r"$x_{\text{max}}$"),
        ("<mi>sin</mi><mo>&#x2061;</mo><mi>x</mi>", "sin x"),
        ("<mover><mi>x</mi><mo>¯</mo></mover>", r"$\overset{¯}{x}$"),
        ("<mover><mi>AB</mi><mo>→</mo></mover>", r"$\overset{→}{AB}$"),
        ("<munder><mi>lim</mi><mi>n</mi></munder>", "$lim_{n}$"),
        ("<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover><mi>x</mi>", "$∑_{i}^{n}x$"),
        ("<mtable><mtr><mtd>1</mtd><mtd>2</mtd></mtr><mtr><mtd>3</mtd></mtr></mtable>", "1, 2; 3"),
    ],
)
def test_mathml_without_tex_is_converted(mathml: str, text: str) -> None:
    tree = html.fromstring(f"<p><math>{mathml}</math></p>")
    replace_formulas(tree)
    assert tree.text_content() == text


@pytest.mark.parametrize(
    ("mathml", "words"),
    [
        ("<msup><mi>x</mi></msup>", "x"),
        ("<mfrac linethickness='0'><mi>n</mi><mi>k</mi></mfrac>", "n k"),
        (
            "<mmultiscripts><mi>C</mi><mn>4</mn><none/><mprescripts/><mn>6</mn></mmultiscripts>",
            "C 4 6",
        ),
        ("<mo>{</mo><mi>x</mi><mo>}</mo>", "{ x }"),
        ("<semantics><menclose><mi>x</mi></menclose><annotation>y</annotation></semantics>", "x"),
        ("x<mi>y</mi>", "x y"),
    ],
)
@pytest.mark.parametrize("description", ["", "a formula"])
def test_unsupported_mathml_becomes_its_description_or_words(
    mathml: str, words: str, description: str
) -> None:
    tree = html.fromstring(f"<p><math alttext='{description}'>{mathml}</math></p>")
    replace_formulas(tree)
    assert tree.text_content() == (description or words)


def test_formulas_in_one_container_keep_the_words_between_them() -> None:
    formulas = "<math><mi>y</mi></math> is <math><mi>z</mi></math>"
    tree = html.fromstring(f'<p>Where <span class="mwe-math-element">{formulas}</span>.</p>')
    replace_formulas(tree)
    assert tree.text_content() == "Where y is z."
