"""`extract_key_info` quotes texts of any language and kind exactly, or refuses them clearly.

The tool splits a text into passages, and returns those that answer a question best: the contexts.
"""

# ruff: noqa: RUF001 - other scripts look like Latin ones

import json
import random
import time
from typing import Any, Final, NamedTuple

import pytest

from functions.tools.workspaces.extract_key_info.ranking import MAX_NEAR
from shared.ai.local_embedding import LocalEmbedder
from shared.runtime.context import App
from tests.support.apps import Apps
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import call_extract, extract_result, quote_all

FAMILY: Final = "👩\u200d👩\u200d👧\u200d👦"
"""A character for people, which consists of seven code points."""
_SAMPLES: Final = """\
Chinese | 长城有多长？
长城全长超过两万公里，是世界上最长的城墙。
北京是中国的首都。 | 熊猫主要吃竹子。 | 黄河流入渤海。

Japanese | 富士山の高さはどのくらいですか。
富士山の高さは三千七百七十六メートルです。
東京は日本の首都です。 | 新幹線はとても速い電車です。 | 寿司は魚と米から作られます。

Arabic | أين تقع مكتبة الإسكندرية؟
تقع مكتبة الإسكندرية في مصر على ساحل البحر المتوسط.
القمر يدور حول الأرض. | الخبز مصنوع من القمح. | الجمل يعيش في الصحراء.

Hindi | ताजमहल किसने बनवाया?
ताजमहल शाहजहाँ ने बनवाया था।
दिल्ली भारत की राजधानी है। | गंगा हिमालय से निकलती है। | आम गर्मियों का फल है।

Thai | แม่น้ำเจ้าพระยาไหลผ่านที่ไหน
แม่น้ำเจ้าพระยาไหลผ่านกรุงเทพมหานคร
ช้างเป็นสัตว์ขนาดใหญ่ | ข้าวเป็นอาหารหลักของคนไทย | ภูเก็ตเป็นเกาะทางภาคใต้

German compounds | Was regelt das Rindfleischetikettierungsgesetz?
Das Rindfleischetikettierungsgesetz regelt, wie Fleisch gekennzeichnet wird.
Die Donaudampfschifffahrtsgesellschaft besaß Schiffe. | Das Brot ist aus Roggen. | Es regnet.

Accents apart | Où est le café de Zoë?
Le cafe\u0301 de Zoe\u0308 est dans la rue du Marché.
Le pain est fait de farine. | La lune tourne autour de la Terre. | Il pleut à Brest.

Emoji | What does the 🍞 recipe say about rye?
👩\u200d👩\u200d👧\u200d👦 🍞 rye needs a sour dough 👍🏽.
🚀 launches are on Friday. | 🐈 sleeps all day long. | 🌧️ is expected in the north.
"""
"""Questions in many languages, each with the passage that answers it and three that do not."""


class Sample(NamedTuple):
    """A question, the passage that answers it, and three that do not."""

    language: str
    question: str
    answer: str
    others: list[str]

    @property
    def text(self) -> str:
        """The four passages; the third is the answer."""
        return "\n\n".join((*self.others[:2], self.answer, *self.others[2:]))


def parse_sample(block: str) -> Sample:
    head, answer, others = block.strip().split("\n")
    language, question = head.split(" | ")
    return Sample(language, question, answer, others.split(" | "))


SAMPLES: Final = [parse_sample(block) for block in _SAMPLES.split("\n\n")]


def assert_quoted(text: str, result: dict[str, Any], max_characters: int = 1_500) -> None:
    """Assert that contexts are exact slices of the text, of a valid length, without repeats."""
    quotes = quote_all(result, {result["document"]: text})
    assert result["contexts"] == quotes[: len(result["contexts"])]
    for quote in quotes:
        assert 0 < len(quote) <= max_characters
        assert quote == quote.strip()
    most = min(5, len(result["contexts"]) + MAX_NEAR)
    assert len(quotes) == min(result["considered"], most)
    assert len({" ".join(quote.split()) for quote in quotes}) == len(quotes)


async def call_twice(app: App, query: str, text: str, **arguments: Any) -> dict[str, Any]:
    """Upload a text twice, and return the result; assert that the stored text gives the same."""
    first = await extract_result(app, query, materials=text, **arguments)
    second = await extract_result(app, query, materials=text, **arguments)
    assert second == first | {"known": True}
    assert_quoted(text, first)
    return first


async def test_words_alone_find_the_answer_in_any_language(apps: Apps) -> None:
    """It may be one of many sentences in a line."""
    embedder = WordEmbedder()
    app = apps(embedder=embedder)
    line = " ".join([sample.answer for sample in SAMPLES] * 12)
    for sample in SAMPLES:
        embedder.is_down = False
        documents = [(await call_twice(app, "?", text))["document"] for text in (sample.text, line)]
        embedder.is_down = True
        result = await extract_result(app, sample.question, document=documents[0])
        assert result["contexts"][0] == sample.answer
        assert result["passages"][0]["position"] == 3
        assert result["considered"] == 4
        result = await extract_result(app, sample.question, document=documents[1])
        assert sample.answer in result["contexts"][0]


async def test_an_english_model_keeps_the_answer_first(
    apps: Apps, local_embedder: LocalEmbedder
) -> None:
    app = apps(embedder=local_embedder)
    for sample in SAMPLES:
        result = await call_twice(app, sample.question, sample.text)
        assert result["contexts"][0] == sample.answer


@pytest.mark.parametrize("times", [1, 50_000])
async def test_a_repeated_paragraph_is_returned_once(app: App, times: int) -> None:
    """White space does not make it another one, and does not count around a text."""
    repeats = "An anchor.\n\nAn  anchor.\r\n\r\n\tAn\nanchor.\n\nA\u200bn anchor."
    text = "An anchor.\n\nRye bread.\n\n" + repeats + "\n\nAn anchor." * times + " " * 300_000
    result = await call_twice(app, "anchor", text)
    assert quote_all(result, {result["document"]: text}) == ["An anchor.", "Rye bread."]
    assert result["considered"] == 2
    passage = result["passages"][0]
    assert (passage["position"], passage["start"], passage["end"]) == (1, 0, len("An anchor."))


@pytest.mark.requirement("001-D2")
async def test_a_context_has_the_white_space_of_its_own_text(app: App) -> None:
    texts = ["Rye bread.\n\nThe anchor holds.", "\n\nThe \t anchor\r\nholds.\n\nA comet."]
    for order in (1, -1):
        documents: dict[str, str] = {}
        for text in texts[::order]:
            result = await extract_result(app, "anchor", materials=text, task_id=f"{order}")
            documents[result["document"]] = text
        arguments: dict[str, Any] = {"scope": "task", "task_id": f"{order}"}
        result = await extract_result(app, "anchor holds", **arguments)
        quotes = quote_all(result, documents)
        assert len(quotes) == result["considered"] == 3
        assert result["contexts"] == quotes[: len(result["contexts"])]
        assert documents[result["passages"][0]["document"]] == texts[::order][-1]
        for document, text in documents.items():
            alone = await extract_result(app, "anchor holds", document=document, task_id=f"{order}")
            assert_quoted(text, alone)


async def test_a_row_a_function_and_a_value_are_found(
    apps: Apps, local_embedder: LocalEmbedder
) -> None:
    app = apps(embedder=local_embedder)
    rows = [f"| Harbour {number} | {number * 3} m | open |" for number in range(200)]
    rows[120] = "| Valparaíso | 77 m | closed for dredging |"
    table = "\n".join(("# Harbours", "", "| Name | Depth | State |", "|---|---|---|", *rows))
    result = await call_twice(app, "Which harbour is closed for dredging?", table)
    assert rows[120] in result["contexts"][0]
    for context in result["contexts"]:
        assert set(context.split("\n")) <= set(table.split("\n"))  # no line is cut

    functions = [
        f"def sum_{number}(items):\n    return sum(items[{number}:])" for number in range(40)
    ]
    functions[20] = (
        "def parse_retry_after(header: str) -> float:\n    return max(0.0, float(header))"
    )
    code = "\n\n\n".join(functions)
    result = await call_twice(app, "Where is parse_retry_after defined?", code)
    assert result["contexts"][0] == functions[20]

    records = [{"id": number, "name": f"item {number}", "stock": 3} for number in range(400)]
    records[250] = {"id": 250, "name": "sextant of brass", "stock": 0}
    query = "How many brass sextants are in stock?"
    result = await call_twice(app, query, json.dumps(records))
    assert [context for context in result["contexts"] if "sextant of brass" in context]


@pytest.mark.parametrize("length", [50_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
async def test_one_long_line_is_answered_in_time(app: App, length: int) -> None:
    """A fake model embeds here. A real one takes minutes, so it may defer a text.

    Processor time is limited, since a busy machine may take any time.
    """
    text = "".join(random.Random(length).choices("abcdefgh", k=length))  # noqa: S311 - no secret
    began = time.process_time()
    result = await extract_result(app, text[length // 2 :][:40], materials=text, seconds=600)
    if result["status"] == "ready":
        assert_quoted(text, result)
    else:
        assert result["ask_again_after"] > 0
    assert time.process_time() - began < 30


@pytest.mark.requirement("001-P2")
async def test_invisible_characters_stay_in_the_context_only(app: App) -> None:
    for between in ("\x00", "\x1b[31m", "\ufeff", "\u202e", "\ufffd"):
        passage = f"The anchor {between} holds{between}."
        result = await call_twice(app, "anchor holds", f"Rye bread.\n\n{passage}\n\nA comet.")
        assert passage == result["contexts"][0]


async def test_a_text_may_be_one_character(app: App) -> None:
    for text in ("x", "麦", "🌾", "?", FAMILY, "\u0301"):
        result = await call_twice(app, "x", text)
        assert quote_all(result, {result["document"]: text}) == [text]


async def test_too_many_passages_are_refused_with_advice(app: App) -> None:
    text = "\n\n".join(str(number) for number in range(20_001))
    answer = await call_extract(app, "7", materials=text)
    assert answer.error is not None
    assert {*(answer.error.details or {})} == {"materials"}
    assert "10,000" in answer.error.message
    assert answer.receipt.documents_written == 0


async def test_a_text_with_paths_and_commands_is_only_text(app: App) -> None:
    """Field paths, ids and database paths in a text have no effect."""
    text = "users/reader/rag_tasks\n\n__name__\n\n`a.b`/*~[]\n\n{'$where': 1}\n\n../../anchor"
    result = await call_twice(app, "anchor", text, task_id="../../x")
    assert "../../anchor" in result["contexts"]
