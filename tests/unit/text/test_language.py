"""The language of a text is recognized by its script and its stop words."""

import pytest

from shared.text.language import detect_language, is_foreign, is_likely_foreign


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How do I cancel the lease?", "en"),
        ("Wie kündige ich den Vertrag?", "de"),
        ("¿Cuándo caduca el contrato?", "es"),
        ("Où est la clé de la maison ?", "fr"),
        ("Quando scade il contratto?", "it"),
        ("Como fazer pão em casa?", "pt"),
        ("Hoe bak ik een brood?", "nl"),
        ("パンの作り方", "ja"),
        ("面包怎么做", "zh"),
        ("빵 만드는 법", "ko"),
        ("Как испечь хлеб?", "ru"),
        ("The Los Angeles Rams, Los Angeles Lakers and Los Angeles Kings play in LA.", "en"),
        ("The word Fernweh is hard to translate: es gibt kein Wort dafür.", "en"),
        ("What does 工 mean?", "en"),
    ],
)
def test_a_language_is_recognized(text: str, language: str) -> None:
    assert detect_language(text) == language


@pytest.mark.parametrize(
    "text", ["", "🎉 42", "pasta al dente", "de novo", "van der Waals", "die hard", "Lübeck"]
)
def test_a_few_words_that_may_be_of_any_language_are_not_foreign(text: str) -> None:
    assert detect_language(text) is None
    assert not is_foreign(text)


@pytest.mark.parametrize(
    "question",
    ["Entstehung der Alpen", "historia del imperio inca", "面包", "Wer reinigt das Treppenhaus?"],
)
def test_one_foreign_stop_word_makes_a_question_likely_foreign(question: str) -> None:
    assert is_likely_foreign(question)


@pytest.mark.parametrize("question", ["Alpen", "notes on van der Waals", "may I die for it", ""])
def test_a_question_with_as_many_english_words_is_not_likely_foreign(question: str) -> None:
    assert not is_likely_foreign(question)
