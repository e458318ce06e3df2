"""Formulas of web pages become TeX, in each of the forms in which pages contain them."""

from __future__ import annotations

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
        ("<msup><mi>x</mi></msup>", "x"),
        ("<mtable><mtr><mtd>1</mtd><mtd>2</mtd></mtr><mtr><mtd>3</mtd></mtr></mtable>", "1, 2; 3"),
    ],
)
def test_mathml_without_tex_is_converted(mathml: str, text: str) -> None:
    tree = html.fromstring(f"<p><math>{mathml}</math></p>")
    replace_formulas(tree)
    assert tree.text_content() == text
