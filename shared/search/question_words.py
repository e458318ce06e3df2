"""What questions in six languages say about time and order, with case and accents folded."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from shared.core.month_names import MONTH_NAMES, MONTHS
from shared.text.terms import fold_letters

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORT_MONTHS: Final[Mapping[str, int]] = MappingProxyType(
    {name[:3]: number for number, name in enumerate(MONTH_NAMES["en"], start=1)}
    | {"sept": 9, "mrz": 3, "okt": 10, "dez": 12, "ene": 1, "abr": 4, "dic": 12, "janv": 1}
    | {"fevr": 2, "avr": 4, "juil": 7}
)
"""The short names of months, which count only beside a year."""
FULL_MONTHS: Final[Mapping[str, int]] = MappingProxyType(
    {fold_letters(name): number for name, number in MONTHS.items()}
)
MONTH_NUMBERS: Final[Mapping[str, int]] = MappingProxyType({**SHORT_MONTHS, **FULL_MONTHS})
"""The number of each month by its names."""
MONTHS_AFTER: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = MappingProxyType(
    {
        language: (prepositions, tuple(map(fold_letters, MONTH_NAMES[language])))
        for language, prepositions in {
            "en": r"in|during|last|this|since|before|after|from|until",
            "de": r"im|im monat|letzten|vergangenen|diesen|seit|vor|nach|ab|bis",
            "es": r"en|durante|desde|hasta|en el mes de|este|antes de|despues de",
            "fr": r"en|au mois de|depuis|avant|apres|jusqu'en|ce",
        }.items()
    }
)
"""The prepositions after which a month needs no year, and the names of months, by language."""


BEFORE_YEAR: Final = (
    "in|during|from|between|since|before|after|year|zwischen|von|jahre?|seit|vor|nach|ano|entre"
    "|desde|en|de|annee|depuis|avant|until|till|bis|hasta|jusqu'en"
)
"""The words after which a number is a year."""


def _invert(words: dict[int, str]) -> Mapping[str, int]:
    return MappingProxyType({word: number for number in words for word in words[number].split()})


COUNTS: Final = _invert(
    {
        1: "a an one ein eine einem einer einen un una uno une 一",
        2: "two zwei dos deux 两 兩 二",
        3: "three drei tres trois 三",
        4: "four vier cuatro quatre 四",
        5: "five funf cinco cinq 五",
        6: "six sechs seis 六",
        7: "seven sieben siete sept 七",
        8: "eight acht ocho huit 八",
        9: "nine neun nueve neuf 九",
        10: "ten zehn diez dix 十",
    }
)
DAY, WEEK, MONTH, YEAR = 1, 7, 30, 365
"""The units of time, each as its length in days."""
UNITS: Final = _invert(
    {
        DAY: "day days tag tage tagen dia dias jour jours",
        WEEK: "week weeks woche wochen semana semanas semaine semaines",
        MONTH: "month months monat monate monaten monats mes meses mois",
        YEAR: "year years jahr jahre jahren jahres ano anos an ans annee annees",
    }
)
SINGULAR_UNITS: Final = (
    "week|woche|semana|semaine|month|monat|monats|mes|mois|year|jahr|jahres|ano|an|annee"
)
"""The units of which there is one last one: `the last days` are not yesterday."""
PLURAL_UNITS: Final = (
    "days|weeks|months|years|tagen?|wochen|monaten?|jahren?|dias|semanas|meses|anos|jours|semaines"
    "|mois|ans|annees"
)
FEW: Final = 4
"""The number of units in a period without a number, such as `the last weeks`."""
EAST_ASIAN_UNITS: Final = _invert(
    {
        DAY: "天 日 日間",
        WEEK: "周 週 週間 星期 个星期 個星期 礼拜 个礼拜",
        MONTH: "个月 個月 か月 ヶ月 カ月 ヵ月 月",
        YEAR: "年",
    }
)
DAY_NAMES: Final = _invert(
    {
        0: "today heute hoy aujourd'hui 今天 今日 本日",
        1: "yesterday gestern ayer hier 昨天 昨日",
        2: "vorgestern anteayer avant-hier 前天 一昨日",
    }
)
"""The names of days relative to today, by how many days ago they are."""
EAST_ASIAN_DAYS: Final = [name for name in DAY_NAMES if not name.isascii()]
EAST_ASIAN_PERIODS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        word: (unit, count)
        for (unit, count), words in {
            (WEEK, 0): "这周 這週 本周 本週 今週 这星期 这个星期 這個星期 这礼拜",
            (WEEK, 1): "上周 上週 先週 上星期 上个星期 上個星期 上礼拜",
            (WEEK, 2): "上上周 上上週 上上星期 先々週",
            (MONTH, 0): "这个月 這個月 这月 本月 今月",
            (MONTH, 1): "上个月 上個月 上月 先月",
            (MONTH, 2): "上上个月 先々月",
            (YEAR, 0): "今年 本年",
            (YEAR, 1): "去年 昨年",
            (YEAR, 2): "前年 一昨年",
        }.items()
        for word in words.split()
    }
)
"""The weeks, months and years relative to this one: the unit, and how many of them ago."""
EAST_ASIAN_YEARS: Final = [word for word, (unit, _) in EAST_ASIAN_PERIODS.items() if unit == YEAR]
SEASONS: Final = _invert(
    {
        3: "spring fruhling fruhjahr primavera printemps 春天 春季 春",
        6: "summer sommer verano ete 夏天 夏季 夏",
        9: "autumn fall herbst otono automne 秋天 秋季 秋",
        12: "winter invierno hiver 冬天 冬季 冬",
    }
)
"""The first month of each season, in the north."""
YEAR_PARTS: Final = _invert(
    {
        1: "early beginning start anfang principios inicios comienzos debut 初",
        5: "mid middle mitte mediados milieu 中",
        9: "late end ende finales fin 末 底",
    }
)
"""The first month of each third of a year."""
WEEKDAYS: Final = _invert(
    {
        0: "monday montag lunes lundi 一 月",
        1: "tuesday dienstag martes mardi 二 火",
        2: "wednesday mittwoch miercoles mercredi 三 水",
        3: "thursday donnerstag jueves jeudi 四 木",
        4: "friday freitag viernes vendredi 五 金",
        5: "saturday samstag sabado samedi 六 土",
        6: "sunday sonntag domingo dimanche 日 天",
    }
)
WEEKEND: Final = (
    r"\b(?:last|this|letztes|dieses|am)\s+(?:weekend|wochenende)\b|\bfin de semana pasado\b"
    r"|\bweek-end dernier\b|上?周末|先?週末"
)
DATE_WORDS: Final = frozenset(
    {*FULL_MONTHS, *UNITS, *DAY_NAMES, *SEASONS, *WEEKDAYS, "weekend", "wochenende", "fin"}
) - {"an"} | {"dernier", "passe"}
"""The words in Latin letters of which a question without digits has one if it names days."""
LAST: Final = "last|past|previous|letzte[nrsm]?|vorige[nrsm]?|vergangene[nrsm]?|ultim[oa]s?"
LAST_AFTER: Final = "pasad[oa]|anterior|derniere?|passee?"
THIS: Final = "this|diese[nrsm]?|est[ea]|ce|cet|cette"
BESIDE_YEAR: Final = (
    r"\b(?:read|saved|noted|notes|highlight(?:s|ed)|wrote|gelesen|notiert|notizen|markiert"
    r"|gespeichert|geschrieben|lei|leido|guarde|anote|subraye|notas|lu|note|surligne)\b"
)
"""Words of what a reader does, beside which a year alone is a date: `Was habe ich 2023 gelesen`."""
FRENCH: Final = r"\b(?:ai|je|que|quoi|lu|quels?|quelles?|est-ce|sur|dans|mes)\b"
"""Words that French does not share with German, in which `hier` is no day."""
_NEXT_PASSAGE: Final = (
    r"(?=\s+(?:\w+\s+)?(?:entr|highlight|not(?:e|iz|a)s?\b|notizen|passage|pasaje|arti[ck]|articulo"
    r"|book|buch|bucher|livre|libro|texto?|thing|time|eintrag|markierung|subrayad|surlign|lecture"
    r"|meeting|session|visit|appointment|\w*(?:sitzung|treffen|besprechung|besuch|termin)"
    r"|acta|reunion|cita|seance|rendez"
    r"|recipe|rezept|receta|recette|letter|\w*brief|carta|lettre|e-?mail|report|\w*bericht|informe"
    r"|minutes|protokoll|invoice|rechnung|factura|facture|extrait|extracto|befund|diagnos))"
)
"""What makes a word such as `last` ask for what is newest: `my last notes`, not `my last name`."""
NEWEST: Final = re.compile(
    r"\b(?:(?<!at the )latest|newest|(?:the )?most recent(?:ly)?(?! common)|(?<!most )recent(?:ly)?"
    r"|newest first|by date|i last)\b"
    rf"|\b(?:my )?last{_NEXT_PASSAGE}|\b(?:my|our) last\b(?! name| will)"
    r"|\b(?:mein|unser)e?[nrsm]? letzte[nrsm]?\b|\b(?:mi|nuestr[oa]) ultim[oa]\b"
    r"|\b(?:mon|ma|notre) derniere?\b"
    r"|\b(?:neue?ste[nrsm]?|aktuellste[nrsm]?|zuletzt|kurzlich|neulich)\b"
    r"|(?<=\bread )last\b|(?<=\bsave )last\b|(?<=\bnote )last\b|(?<=\bwrite )last\b"
    rf"|\b(?:letzte|jungste)[nrsm]?{_NEXT_PASSAGE}"
    rf"|\blo ultimo\b|\bultim[oa]s?{_NEXT_PASSAGE}"
    r"|\bmas (?:recientes?|nuev[oa]s?)\b|\brecientemente\b"
    rf"|\bderni(?:er|ere)s?{_NEXT_PASSAGE}"
    r"|\b(?:le |la |les )?plus recente?s?\b|\brecemment\b"
    r"|最新|最近(?!傍)|上一?次|前回|直近|(?:一番|最も)新しい"
    r"|最[后後](?=一?[条條篇次]|[的の]?(?:笔记|筆記|记录|記録|文章|メモ|ノート|記事)"
    r"|に?(?:读|讀|読|看|写|寫|書|记|記|保存))"
)
"""The words that ask for what is newest, with case and accents folded."""
REQUEST_WORDS: Final = frozenset(
    """
    what what's about over between since sobre sur uber zu zwischen entre which did do does have
    has had i i've my me we was were is are there any all everything anything something read
    save saved note notes noted highlight highlights highlighted write wrote written added stored
    passages texts article articles books thing things entries items stuff show list find give
    tell of from in on at during the a an about to for and that this ones one

    welche welcher welches habe hab ich meine meinen mein mir zeig zeige liste alles gelesen
    notiert notizen notiz markiert markierungen gespeichert geschrieben hinzugefugt texte artikel
    bucher passagen eintrage aus vom von im am der die das den dem gab es gibt ist sind ein eine
    und wann waren

    que cual cuales lei leido he guarde guardado anote anotado subraye subrayado escribi escrito
    mis mi nota notas textos articulos articulo libros muestra muestrame todo lo el la los las de
    del durante pasajes cosas cosa es ha sido por

    qu quoi quel quels quelle quelles ai j je lu enregistre surligne ecrit mes mon ma textes
    articles livres montre moi tout ce le les du des en est au dans que sont c l d un une choses
    chose
    """.split()  # noqa: SIM905 - a language a paragraph
)
"""The words of a question that only ask for passages, as in `What did I read about bread`."""
EAST_ASIAN_REQUEST: Final = re.compile(
    "(?:我|读|讀|看|了|过|過|什么|什麼|哪些|有|写|寫|记|記|录|保存|在|里|书|文章|内容|东西|的|是|笔记|"
    "筆記|那|吗|呢|列出|所有|给|显示|哪|篇|条|份|时候|時候|添加|一|"
    "読んだ|読み|書いた|書き|ました|もの|物|何|なに|を|は|に|の|が|ノート|メモ|記事|した|教えて|"
    "見せて|ください|ですか|です|か|どんな|私|全部|すべて|で)*"
)
REQUEST_PHRASES: Final = re.compile(
    "(?:我|你)(?:都|最近)?(?:读|讀|看|记|記|写|寫|保存|学|學)(?:了|过|過|的)*(?:什么|什麼|哪些)?"
    "|关于|關於|有关|有關|(?:的)?(?:笔记|筆記|内容|內容|文章|记录)(?=\\W|$)"
    "|(?:読んだ|書いた|保存した|メモした)(?:もの|メモ|ノート|記事|本|話|の)?|(?:について|に関する)の?"
    "|の?(?:メモ|ノート|記事|話)(?=\\W|[はをが]|$)|(?:何|なに)(?:を|が)|の(?=\\W|$)"
)
"""Parts of Chinese and Japanese questions that only ask for passages."""
