"""`search_kb` finds identifiers, numbers and words in every form that people write."""

from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.runtime.context import Context
from tests.support.knowledge import store_sources
from tests.support.searches import make_source_of_text

TEXTS = {
    "accounts": "The function getUserById() wraps fetch_user_record and raises ERR_CONN_RESET when"
    " the pool is empty. See src/auth/session_store.py.",
    "compiler": "C++ templates fail with E0382; C# has LINQ, F# has pipes. Node.js broke HTTP/2.",
    "contact": "Ticket CVE-2024-31337, RFC 9110, § 242 BGB, ISO/IEC 27001, GPT-4o, MacBookPro.",
    "household": "The user prefers tea over coffee, and her name is Ingrid.",
    "rest": "State-of-the-art beds do not make well-being. Re-entry after leave takes a week.",
    "sleep": "Wellbeing at work begins the night before.",
    "editor": "Turn on auto-update and pre-commit hooks; use a cross-platform time-stamp.",
    "numbers": "The pump moves 10,000 litres; the mast is 12m high and weighs 1 200 kg.",
    "names": "Don\u2019t confuse Jacques l\u2019Intercis with O\u2019Brien or K\u2019Thriss.",
    "diacritics": "Smørrebrød in Łódź, says Søren Đorđević to Dvořák.",
    "packing": "🚀 Launch list: passports, rope, tea. Fragile things have a 🍋, clocks a ⏰.",
    "forms": "The mice ran; children wrote essays about geese. She taught, he sold, knives fell.",
    "railway": "人工智能技术发展迅速\uff0c铁路12306系统每天处理数百万张车票。",
    "library": "東京都港区の図書館で潮汐表を読んだ。",
    "harbour": "항구에서 배를 기다리는 동안 조석표를 읽었다.",
}
QUESTIONS = """
accounts: get user by id | getUserById | user by id | ERR_CONN_RESET | conn reset | session_store
compiler: nodejs | Node.js | http2 | HTTP/2 | C# | c++ | F#
contact: RFC9110 | rfc 9110 | gpt4o | GPT-4o | iso27001 | cve-2024-31337 | macbook pro
rest: well-being | state of the art | stateoftheart | reentry | re-entry
sleep: wellbeing at work
editor: autoupdate | auto update | precommit | timestamp | crossplatform
numbers: 10000 litres | 10,000 | 1200 kg | 1200kg | 12 m | 12m
names: obrien | O'Brien | intercis | don't confuse
diacritics: smorrebrod | Lodz | Soren | Dordevic | Dvorak
packing: 🚀 | 🍋 | ⏰
forms: mouse | goose | child | teach | sell | knife
railway: 人工智能 | 12306 | 铁路 | 车
library: 潮汐表 | 港
harbour: 배 | 항구
"""


async def test_words_are_found_in_every_form(ctx: Context) -> None:
    await store_sources(ctx, *(make_source_of_text(text, name) for name, text in TEXTS.items()))
    failures = []
    for line in QUESTIONS.strip().splitlines():
        name, questions = line.split(": ", 1)
        for question in questions.split(" | "):
            out = await search_kb(In(query=question, mode="lexical"), ctx)
            hit = next(iter(out.results), None)
            if hit is None or (hit.source_id, out.matches) != (name, True) or not hit.matched_terms:
                failures.append((question, hit))
    assert failures == []


async def test_single_characters_are_searched_only_alone(ctx: Context) -> None:
    await store_sources(
        ctx, make_source_of_text("車を駐める港"), make_source_of_text("電車", "rail")
    )
    assert len((await search_kb(In(query="車", mode="lexical"), ctx)).results) == 2
    [hit] = (await search_kb(In(query="電車", mode="lexical"), ctx)).results
    assert (hit.source_id, hit.matched_terms) == ("rail", ["電車"])


async def test_words_of_a_title_count_three_times(ctx: Context) -> None:
    text = "Some words about the weather and the sea."
    await store_sources(
        ctx,
        make_source_of_text(f"{text} Anchors.", "anchored", title="Notes"),
        make_source_of_text(f"{text} Nothing.", "titled", title="Anchors"),
    )
    hits = (await search_kb(In(query="anchors", mode="lexical"), ctx)).results
    assert [hit.source_id for hit in hits] == ["titled", "anchored"]
