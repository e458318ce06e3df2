"""`extract_key_info` quotes texts of any language and kind exactly, or refuses them clearly.

The tool splits a text into passages, and returns those that answer a question best: the contexts.
"""

# ruff: noqa: RUF001 - other scripts look like Latin ones

from __future__ import annotations

import base64
import csv
import io
import json
import random
import string
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

import pytest

from functions.tools.workspaces.extract_key_info import ranking
from shared.ai.local_embedding import LocalEmbedder
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import READER, STRANGER, call_extract, extract_result

MakeLine = Callable[[random.Random, int], str]


FAMILY: Final = "👩\u200d👩\u200d👧\u200d👦"
"""A character for people, which consists of seven code points."""
MILLION: Final = 1_000_000


class LanguageSample(NamedTuple):
    """A question in a language, the passage that answers it, and three passages that do not."""

    language: str
    question: str
    answer: str
    other_passages: tuple[str, str, str]


SAMPLES: Final = [
    LanguageSample(
        "Chinese",
        "长城有多长？",
        "长城全长超过两万公里，是世界上最长的城墙。",
        ("北京是中国的首都。", "熊猫主要吃竹子。", "黄河流入渤海。"),
    ),
    LanguageSample(
        "Japanese",
        "富士山の高さはどのくらいですか。",
        "富士山の高さは三千七百七十六メートルです。",
        ("東京は日本の首都です。", "新幹線はとても速い電車です。", "寿司は魚と米から作られます。"),
    ),
    LanguageSample(
        "Korean",
        "한글은 누가 만들었습니까?",
        "세종대왕이 한글을 만들었습니다.",
        ("서울은 한국의 수도입니다.", "김치는 배추로 담급니다.", "한강은 서해로 흐릅니다."),
    ),
    LanguageSample(
        "Arabic",
        "أين تقع مكتبة الإسكندرية؟",
        "تقع مكتبة الإسكندرية في مصر على ساحل البحر المتوسط.",
        ("القمر يدور حول الأرض.", "الخبز مصنوع من القمح.", "الجمل يعيش في الصحراء."),
    ),
    LanguageSample(
        "Hebrew",
        "איפה נמצא ים המלח?",
        "ים המלח נמצא בין ישראל לירדן.",
        ("הלחם עשוי מקמח.", "הירח מקיף את כדור הארץ.", "החתול ישן על הספה."),
    ),
    LanguageSample(
        "Hindi",
        "ताजमहल किसने बनवाया?",
        "ताजमहल शाहजहाँ ने बनवाया था।",
        ("दिल्ली भारत की राजधानी है।", "गंगा हिमालय से निकलती है।", "आम गर्मियों का फल है।"),
    ),
    LanguageSample(
        "Thai",
        "แม่น้ำเจ้าพระยาไหลผ่านที่ไหน",
        "แม่น้ำเจ้าพระยาไหลผ่านกรุงเทพมหานคร",
        ("ช้างเป็นสัตว์ขนาดใหญ่", "ข้าวเป็นอาหารหลักของคนไทย", "ภูเก็ตเป็นเกาะทางภาคใต้"),
    ),
    LanguageSample(
        "Russian",
        "Какая река впадает в Каспийское море?",
        "Волга впадает в Каспийское море.",
        ("Москва стоит на семи холмах.", "Хлеб пекут из муки.", "Байкал очень глубок."),
    ),
    LanguageSample(
        "Greek",
        "Πού βρίσκεται ο Παρθενώνας;",
        "Ο Παρθενώνας βρίσκεται στην Ακρόπολη των Αθηνών.",
        ("Το ψωμί γίνεται από αλεύρι.", "Η γάτα κοιμάται.", "Ο ήλιος είναι ένα άστρο."),
    ),
    LanguageSample(
        "German compounds",
        "Was regelt das Rindfleischetikettierungsgesetz?",
        "Das Rindfleischetikettierungsgesetz regelt, wie Fleisch gekennzeichnet wird.",
        (
            "Die Donaudampfschifffahrtsgesellschaft besaß viele Schiffe.",
            "Das Brot wird aus Roggenmehl gebacken.",
            "Eine Straßenverkehrsordnung gilt für alle.",
        ),
    ),
    LanguageSample(
        "Accents that are written apart",
        "Où est le café de Zoë?",
        "Le cafe\u0301 de Zoe\u0308 est dans la rue du Marché.",
        ("Le pain est fait de farine.", "La lune tourne autour de la Terre.", "Il pleut à Brest."),
    ),
    LanguageSample(
        "Emoji",
        "What does the 🍞 recipe say about rye?",
        f"{FAMILY} 🍞 rye needs a sour dough 👍🏽.",
        ("🚀 launches are on Friday.", "🐈 sleeps all day long.", "🌧️ is expected in the north."),
    ),
]


@pytest.fixture
def embedder(local_embedder: LocalEmbedder) -> LocalEmbedder:
    """The local model, for `app`."""
    return local_embedder


@pytest.fixture
async def fast_app(project: str) -> AsyncIterator[App]:
    """An app with a fake embedder."""
    instance = App(Settings(google_cloud_project=project), embedder=WordEmbedder())
    yield instance
    await instance.aclose()


@pytest.fixture
def lexical_app(fast_app: App, monkeypatch: pytest.MonkeyPatch) -> App:
    """An app that ranks by words alone."""
    monkeypatch.setattr(ranking, "SEMANTIC_WEIGHT", 0)
    return fast_app


def assert_quoted(text: str, result: dict[str, Any], max_characters: int = 1_500) -> None:
    """Assert that contexts are exact slices of the text, of a valid length, without repeats."""
    passages = result["passages"]
    assert result["contexts"] == [text[passage["start"] : passage["end"]] for passage in passages]
    for context in result["contexts"]:
        assert 0 < len(context) <= max_characters
        assert context == context.strip()
    assert len(result["contexts"]) == min(result["considered"], 5)
    assert len({" ".join(context.split()) for context in result["contexts"]}) == len(passages)


async def call_twice(app: App, query: str, text: str, **arguments: Any) -> dict[str, Any]:
    """Upload a text twice, and return the result; assert that the stored text gives the same."""
    first = await extract_result(app, query, materials=text, **arguments)
    second = await extract_result(app, query, materials=text, **arguments)
    assert second == first | {"known": True}
    assert_quoted(text, first)
    return first


in_any_language = pytest.mark.parametrize(
    "sample", SAMPLES, ids=[sample.language for sample in SAMPLES]
)


def make_text_with_answer(sample: LanguageSample) -> str:
    """Return a text of four passages; the third is the answer."""
    first, second, last = sample.other_passages
    return f"{first}\n\n{second}\n\n{sample.answer}\n\n{last}"


@in_any_language
async def test_words_alone_find_the_answer_in_any_language(
    lexical_app: App, sample: LanguageSample
) -> None:
    result = await call_twice(lexical_app, sample.question, make_text_with_answer(sample))
    assert result["contexts"][0] == sample.answer
    assert result["passages"][0]["position"] == 3
    assert result["considered"] == 4


@pytest.mark.parametrize(
    "sample",
    # The local model knows so little Korean that its noise outweighs the words.
    [pytest.param(sample, id=sample.language) for sample in SAMPLES if sample.language != "Korean"],
)
async def test_an_english_model_keeps_the_answer_first(app: App, sample: LanguageSample) -> None:
    result = await call_twice(app, sample.question, make_text_with_answer(sample))
    assert result["contexts"][0] == sample.answer


@in_any_language
async def test_the_answer_is_found_in_one_line_of_any_language(
    lexical_app: App, sample: LanguageSample
) -> None:
    """A single long paragraph is split after sentences."""
    sentences = [other.answer for other in SAMPLES if other is not sample] * 12
    sentences.insert(60, sample.answer)
    result = await call_twice(lexical_app, sample.question, " ".join(sentences))
    assert sample.answer in result["contexts"][0]


async def test_offsets_count_code_points_after_any_text(fast_app: App) -> None:
    before = f"{FAMILY}🇩🇪 e\u0301\u0301 ❤\ufe0f 𝔘𝔫𝔦 \U0001f9d1\U0001f3fd नमस्ते \u200f\ufeff"
    text = f"{before}\n\n  The anchor \t holds.\n\n{before} too"
    result = await call_twice(fast_app, "anchor holds", text)
    passage = result["passages"][0]
    assert result["contexts"][0] == "The anchor \t holds."
    start = text.index("The anchor")
    assert passage["start"] == start
    assert passage["end"] == start + len("The anchor \t holds.")


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r", "\u2028", " \t\n\t"])
async def test_a_paragraph_of_several_lines_is_quoted_with_its_lines(
    fast_app: App, line_end: str
) -> None:
    paragraph = line_end.join(("The anchor", "holds the boat", "in a storm."))
    text = f"Rye bread.{line_end * 2}{paragraph}{line_end * 2}A comet's tail."
    result = await call_twice(fast_app, "anchor in a storm", text)
    assert result["contexts"][0] == paragraph
    assert result["considered"] == 3


async def test_a_repeated_paragraph_is_returned_once(fast_app: App) -> None:
    repeats = "An anchor.\n\nAn  anchor.\r\n\r\n\tAn\nanchor.\n\nA\u200bn anchor."
    text = f"An anchor.\n\nRye bread.\n\n{repeats}"
    result = await call_twice(fast_app, "anchor", text)
    assert result["contexts"] == ["An anchor.", "Rye bread."]
    assert result["considered"] == 2
    passage = result["passages"][0]
    assert passage["position"] == 1
    assert passage["start"] == 0
    assert passage["end"] == len("An anchor.")


@pytest.mark.requirement("001-D2")
@pytest.mark.parametrize("is_reversed", [False, True])
async def test_a_context_has_the_white_space_of_its_own_text(
    fast_app: App, *, is_reversed: bool
) -> None:
    texts = ["Rye bread.\n\nThe anchor holds.", "\n\nThe \t anchor\r\nholds.\n\nA comet."]
    if is_reversed:
        texts.reverse()
    documents: dict[str, str] = {}
    for text in texts:
        result = await extract_result(fast_app, "anchor", materials=text)
        assert_quoted(text, result)
        documents[result["document"]] = text

    result = await extract_result(fast_app, "anchor holds", scope="task")
    for context, passage in zip(result["contexts"], result["passages"], strict=True):
        assert context == documents[passage["document"]][passage["start"] : passage["end"]]
    assert result["considered"] == 3
    assert len(result["contexts"]) == 3
    latest_text = documents[result["passages"][0]["document"]]
    assert latest_text == texts[1]

    for document, text in documents.items():
        alone = await extract_result(fast_app, "anchor holds", document=document)
        assert_quoted(text, alone)


async def test_a_row_is_found_in_a_table_of_markdown(app: App) -> None:
    rows = [f"| Harbour {number} | {number * 3} m | open |" for number in range(200)]
    rows[120] = "| Valparaíso | 77 m | closed for dredging |"
    text = "\n".join(("# Harbours", "", "| Name | Depth | State |", "|---|---|---|", *rows))
    result = await call_twice(app, "Which harbour is closed for dredging?", text)
    assert rows[120] in result["contexts"][0]
    for context in result["contexts"]:
        assert set(context.split("\n")) <= set(text.split("\n"))  # no line is cut


async def test_a_function_is_found_in_code(app: App) -> None:
    functions = [
        f"def sum_of_{number}(values: list[int]) -> int:\n    return sum(values[{number}:])"
        for number in range(40)
    ]
    expected = "def parse_retry_after(header: str) -> float:\n    return max(0.0, float(header))"
    text = "\n\n\n".join([*functions[:20], expected, *functions[20:]])
    result = await call_twice(app, "Where is parse_retry_after defined?", text)
    assert result["contexts"][0] == expected


async def test_a_record_is_found_in_comma_separated_values(app: App) -> None:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(("name", "city", "note"))
    for number in range(300):
        writer.writerow((f"Person {number}", "Springfield", f'says "{number}", twice'))
    writer.writerow(("Ada Lovelace", "London", "wrote the first program"))
    text = file.getvalue()
    result = await call_twice(app, "Who wrote the first program?", text)
    assert "Ada Lovelace,London,wrote the first program" in result["contexts"][0]


async def test_a_value_is_found_in_json_on_one_line(app: App) -> None:
    records = [{"id": number, "name": f"item {number}", "stock": 3} for number in range(400)]
    records[250] = {"id": 250, "name": "sextant of brass", "stock": 0}
    text = json.dumps(records)
    result = await call_twice(app, "How many brass sextants are in stock?", text)
    assert [context for context in result["contexts"] if "sextant of brass" in context]


def make_letters(rng: random.Random, length: int) -> str:
    """Return random letters without white space."""
    return "".join(rng.choices(string.ascii_letters, k=length))


def make_chinese(rng: random.Random, length: int) -> str:
    """Return random Chinese characters."""
    return "".join(map(chr, rng.choices(range(0x4E00, 0x9FA5), k=length)))


def make_base64(rng: random.Random, length: int) -> str:
    """Return random bytes in base64."""
    return base64.b64encode(rng.randbytes(length * 3 // 4)).decode()


def make_words(rng: random.Random, length: int) -> str:
    """Return random words, with few ends of sentences."""
    return " ".join(rng.choices(("rye", "comet", "anchor.", "storm", "oven"), k=length // 5))


@pytest.mark.parametrize("length", [50_000, pytest.param(MILLION, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make_line", [make_letters, make_chinese, make_base64, make_words])
async def test_one_long_line_is_answered_in_time(
    fast_app: App, make_line: MakeLine, length: int
) -> None:
    """A fake model embeds here. A real one takes minutes, so it may defer a text.

    Processor time is limited, since a busy machine may take any time.
    """
    text = make_line(random.Random(length), length)  # noqa: S311 - no secret
    query = text[length // 2 :][:40]
    began = time.process_time()
    result = await extract_result(fast_app, query, materials=text, seconds=600)
    if result["status"] == "ready":
        assert_quoted(text, result)
        repeated_result = await extract_result(
            fast_app, query, document=result["document"], seconds=600
        )
        assert repeated_result == result | {"known": True}
    else:
        assert result["ask_again_after"] > 0
    assert time.process_time() - began < 30


@pytest.mark.parametrize("seed", range(4))
async def test_binary_junk_is_quoted_exactly(fast_app: App, seed: int) -> None:
    junk = random.Random(seed).randbytes(30_000)  # noqa: S311 - no secret
    text = junk.decode("latin-1") + "\n\nThe anchor holds.\n\n" + junk[::-1].decode("latin-1")
    result = await call_twice(fast_app, "Does the anchor hold?", text)
    assert "The anchor holds." in result["contexts"][0]


@pytest.mark.requirement("001-P2")
@pytest.mark.parametrize("between", ["\x00", "\x1b[31m", "\ufeff", "\u202e", "\ufffd"])
async def test_invisible_characters_stay_in_the_context_only(fast_app: App, between: str) -> None:
    passage = f"The anchor {between} holds{between}."
    result = await call_twice(fast_app, "anchor holds", f"Rye bread.\n\n{passage}\n\nA comet.")
    assert passage == result["contexts"][0]


async def test_white_space_around_a_short_text_does_not_matter(fast_app: App) -> None:
    text = " " * 300_000 + "anchor" + "\n" * 300_000 + "storm" + "\t" * 300_000
    result = await call_twice(fast_app, "anchor", text)
    assert result["contexts"] == ["anchor", "storm"]


async def test_a_text_may_be_one_character(fast_app: App) -> None:
    for text in ("x", "麦", "🌾", "?", FAMILY, "\u0301"):
        assert (await call_twice(fast_app, "x", text))["contexts"] == [text]


async def test_too_many_passages_are_refused_with_advice(fast_app: App) -> None:
    text = "\n\n".join(str(number) for number in range(20_001))
    answer = await call_extract(fast_app, "7", materials=text)
    assert answer.error is not None
    assert {*(answer.error.details or {})} == {"materials"}
    assert "10,000" in answer.error.message
    assert answer.receipt.documents_written == 0


async def test_a_paragraph_repeated_very_often_is_one_passage(fast_app: App) -> None:
    text = "anchor\n\n" * 50_000
    result = await call_twice(fast_app, "anchor", text)
    assert result["contexts"] == ["anchor"]
    assert result["considered"] == 1


async def test_a_text_with_paths_and_commands_is_only_text(lexical_app: App) -> None:
    """Field paths, ids and database paths in a text have no effect."""
    text = "users/reader/rag_tasks\n\n__name__\n\n`a.b`/*~[]\n\n{'$where': 1}\n\n../../anchor"
    result = await call_twice(lexical_app, "anchor", text, task_id="../../x")
    assert result["contexts"][0] == "../../anchor"


async def test_users_do_not_learn_of_each_others_texts(fast_app: App) -> None:
    result = await extract_result(fast_app, "anchor", READER, materials="The anchor holds.")
    strangers_result = await extract_result(
        fast_app, "anchor", STRANGER, materials="The anchor holds."
    )
    assert result["known"] is False
    assert strangers_result["known"] is False
