"""The days that questions name, in six languages."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from shared.core.dates import DateSpan
from shared.search.understanding import DateOrder, Understanding, understand

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
"""A Monday."""
MAY_2024 = "May 2024"
LAST_WEEK = "2026-11-23 to 2026-11-29"
PERIODS = {
    "What did I read in May 2024?": MAY_2024,
    "boats, may of 2024": MAY_2024,
    "bread in 2024-05": MAY_2024,
    "05/2024": MAY_2024,
    "What did I save on May 12th, 2024?": "2024-05-12",
    "12 May 2024": "2024-05-12",
    "2024-05-12": "2024-05-12",
    "Sept 2024": "September 2024",
    "what did i note in march": "March 2026",
    "in December": "December 2025",
    "May last year": "May 2025",
    "on 12 May": "2026-05-12",
    "notes from March to May 2024": "2024-03-01 to 2024-05-31",
    "between March 2024 and May 2024": "2024-03-01 to 2024-05-31",
    "from 2022 to 2024": "2022-01-01 to 2024-12-31",
    "in 2023": "2023",
    "my 2023 notes": "2023",
    "since May 2024": "2024-05-01 to 2026-11-30",
    "before 2023": "until 2022-12-31",
    "until May 2024": "until 2024-05-31",
    "until 2023": "until 2023-12-31",
    "until May": "until 2026-05-31",
    "Notizen bis Mai 2024": "until 2024-05-31",
    "hasta mayo de 2024": "until 2024-05-31",
    "jusqu'en mai 2024": "until 2024-05-31",
    "2024年5月まで": "until 2024-05-31",
    "in May and June": "2026-05-01 to 2026-06-30",
    "from May to July": "2026-05-01 to 2026-07-31",
    "from November to February": "2025-11-01 to 2026-02-28",
    "from November to February 2024": "2023-11-01 to 2024-02-29",
    "von Mai bis Juli": "2026-05-01 to 2026-07-31",
    "entre mayo y julio": "2026-05-01 to 2026-07-31",
    "de mai à juillet": "2026-05-01 to 2026-07-31",
    "march or may 2024": "2024-03-01 to 2024-05-31",
    "May and March 2024": "2024-03-01 to 2024-05-31",
    "early 2024": "2024-01-01 to 2024-04-30",
    "in mid-2024": "2024-05-01 to 2024-08-31",
    "late 2023": "2023-09-01 to 2023-12-31",
    "until the end of 2023": "until 2023-12-31",
    "Anfang 2024": "2024-01-01 to 2024-04-30",
    "Ende 2023": "2023-09-01 to 2023-12-31",
    "a finales de 2023": "2023-09-01 to 2023-12-31",
    "à la fin de 2023": "2023-09-01 to 2023-12-31",
    "2023年末": "2023-09-01 to 2023-12-31",
    "vom 03.05.24": "2024-05-03",
    "after 2024": "2025-01-01 to 2026-11-30",
    "summer 2023": "2023-06-01 to 2023-08-31",
    "last winter": "2025-12-01 to 2026-02-28",
    "Q2 2024": "2024-04-01 to 2024-06-30",
    "results of 2024-Q1": "2024-01-01 to 2024-03-31",
    "last week": LAST_WEEK,
    "three weeks ago": "2026-11-09 to 2026-11-15",
    "2 months ago": "September 2026",
    "the last 7 days": "2026-11-24 to 2026-11-30",
    "over the last few weeks": "2026-11-03 to 2026-11-30",
    "yesterday's run": "2026-11-29",
    "the day before yesterday": "2026-11-28",
    "this year": "2026",
    "on Monday": "2026-11-23",
    "last weekend": "2026-11-28 to 2026-11-29",
    "Was habe ich im Mai 2024 gelesen?": MAY_2024,
    "Was habe ich 2023 gelesen?": "2023",
    "Notizen vom 12. Mai": "2026-05-12",
    "am 12.05.2024": "2024-05-12",
    "im Mai letzten Jahres": "May 2025",
    "letzte Woche": LAST_WEEK,
    "vor zwei Monaten": "September 2026",
    "in den letzten 10 Tagen": "2026-11-21 to 2026-11-30",
    "In den letzten Wochen": "2026-11-03 to 2026-11-30",
    "seit März": "2026-03-01 to 2026-11-30",
    "vorgestern": "2026-11-28",
    "im Sommer 2023": "2023-06-01 to 2023-08-31",
    "¿Qué leí en mayo de 2024?": MAY_2024,
    "el 12 de mayo de 2024": "2024-05-12",
    "la semana pasada": LAST_WEEK,
    "hace tres días": "2026-11-27",
    "en los últimos 7 días": "2026-11-24 to 2026-11-30",
    "las últimas semanas": "2026-11-03 to 2026-11-30",
    "el año pasado": "2025",
    "Qu'ai-je lu en mai 2024 ?": MAY_2024,
    "le 1er mai 2024": "2024-05-01",
    "la semaine dernière": LAST_WEEK,
    "il y a deux mois": "September 2026",
    "les 7 derniers jours": "2026-11-24 to 2026-11-30",
    "ces derniers jours": "2026-11-27 to 2026-11-30",
    "qu'ai-je lu hier": "2026-11-29",
    "l'été dernier": "2026-06-01 to 2026-08-31",
    "2024年5月我读了什么": MAY_2024,
    "２０２４年５月": MAY_2024,
    "2024年5月12日": "2024-05-12",
    "去年五月": "May 2025",
    "去年十一月": "November 2025",
    "上周的笔记": LAST_WEEK,
    "三天前": "2026-11-27",
    "最近7天": "2026-11-24 to 2026-11-30",
    "最近几周": "2026-11-03 to 2026-11-30",
    "先週のメモ": LAST_WEEK,
    "昨日読んだ": "2026-11-29",
    "3日前": "2026-11-27",
    "昨年5月に": "May 2025",
    "月曜日に": "2026-11-23",
    "2024年の夏": "2024-06-01 to 2024-08-31",
}
"""Questions, and what each of them is understood as."""


def ask(question: str) -> Understanding:
    return understand(question, NOW, UTC)


@pytest.mark.parametrize(("question", "expected"), PERIODS.items())
def test_a_question_names_days(question: str, expected: str) -> None:
    period = ask(question).period
    assert period
    assert period.describe() == expected


@pytest.mark.parametrize(
    "question",
    [
        "What may change, and who will march?",
        "the battle of 1815",
        "life on Mars",
        "steps 2000 and 2010",
        "1,024 items, version 2024.1, 2020%",
        "Was steht hier?",
        "十三月的故事",
        "in May 2031",
        "32.13.2024",
        "一天天变冷",
        "How long does bread last?",
        "the last samurai of the year",
        "the last days of Pompeii",
        "die letzten Tage der Menschheit",
        "das Jüngste Gericht",
        "最后的晚餐",
        "最後の晩餐",
        "la dernière danse",
        "la última cena",
        "my last name",
        "our last will",
        "the last run of the year",
        "most recent common ancestor",
        "paid by noon at the latest",
        "version 03.05.24.1",
    ],
)
def test_a_question_names_no_days(question: str) -> None:
    assert ask(question) == Understanding(question, question)


def test_days_are_those_of_the_time_zone() -> None:
    now = datetime(2026, 11, 30, 22, tzinfo=UTC)
    period = understand("today", now, ZoneInfo("Asia/Tokyo")).period
    assert period == DateSpan(date(2026, 12, 1), date(2026, 12, 1))


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        ("What is the latest note about rye bread?", "rye bread"),
        ("most recent run", "run"),
        ("my last run", "run"),
        ("mein letzter Lauf", "Lauf"),
        ("mi última visita al médico", "visita al médico"),
        ("the last board meeting", "board meeting"),
        ("in der letzten Vereinssitzung", "Vereinssitzung"),
        ("letzter Arztbrief", "Arztbrief"),
        ("dernier extrait sur le jardinage", "extrait jardinage"),
        ("上一次会议", "会议"),
        ("Was habe ich zuletzt über Rosen gelesen?", "Rosen"),
        ("neueste Notiz zu C++", "C++"),
        ("lo último que leí sobre café", "café"),
        ("ma dernière note sur le fromage", "fromage"),
        ("最新的关于红茶的笔记", "红茶"),
        ("味噌汁の最新のメモ", "味噌汁"),
        ("What did I read last?", ""),
        ("latest note about first aid", "first aid"),
        ("newest notes on time management", "time management"),
        ("最新的关于日本的笔记", "日本"),
        ("my last three highlights", "three"),
        ("When did I last read about bread?", "When bread"),
        ("最后一篇关于红茶的文章", "红茶"),
        ("las últimas notas", ""),
        ("recent notes", ""),
    ],
)
def test_a_question_asks_for_the_newest(question: str, subject: str) -> None:
    understanding = ask(question)
    assert (understanding.order, understanding.subject) == (DateOrder.NEWEST, subject)
    assert understanding.is_listing == (not subject)


def test_all_words_but_those_of_an_order_are_searched() -> None:
    understanding = ask("the latest notes about New York from 2023")
    assert understanding.words == "the notes about New York from 2023"
    assert understanding.subject == "New York"


@pytest.mark.parametrize(
    "question",
    [
        "What did I read in May 2024?",
        "Was habe ich im Mai 2024 gelesen?",
        "¿Qué leí en mayo de 2024?",
        "Qu'ai-je lu en mai 2024 ?",
        "2024年5月我读了什么",
        "2024年5月に読んだもの",
    ],
)
def test_a_question_without_subject_asks_for_a_listing(question: str) -> None:
    assert ask(question).is_listing
