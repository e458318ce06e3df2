"""Texts in legacy encodings are read, with a warning that names the encoding."""

# ruff: noqa: RUF001 - texts in many scripts

from pathlib import Path

import pytest

from tests.support.source_files import read_only_source, read_warnings, write_file

ENGLISH = "“Quoted” – it’s a naïve résumé about déjà vu"
RUSSIAN = "Все счастливые семьи похожи друг на друга, каждая несчастлива по-своему."


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "café"),
        ("cp1252", ENGLISH),
        ("cp1252", "Grüße aus München, schöne Straße."),
        ("cp1252", "El niño comió piñas en España."),
        ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy."),
        ("iso8859_2", "Příliš žluťoučký kůň úpěl ďábelské ódy."),
        ("mac_roman", ENGLISH),
        ("cp850", "Todos los niños nacen libres; mañana el señor Núñez esperará en la bahía."),
        ("cp1250", "Árvíztűrő tükörfúrógép, mondta az öreg."),
        ("cp1250", "Minden emberi lény szabadon születik és egyenlő méltósága és joga van."),
        ("cp1250", "Vjetar puni jedra, čovjek šuti i gleda more, đak također."),
        ("iso8859_2", "Zażółć gęślą jaźń, powiedział żeglarz, a później czytał książkę."),
        ("cp1254", "Rüzgâr yelkeni dolduruyor; dümen ağırlaşıyor, şimdi kıyıya dönmek için geç."),
        ("mac_roman", "Über den Wolken schloß der müde Fährmann die Tür."),
        ("cp850", "Über den Wolken schloß der müde Fährmann die Tür."),
        ("cp852", "Příliš žluťoučký kůň úpěl ďábelské ódy."),
        ("cp852", "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności."),
        ("cp1252", "ÜBER DEN WOLKEN SCHLÖSSE MÄNNER"),
        ("cp1251", "Привет, мир"),
        ("cp866", "ВСЕМ ПРИВЕТ, ГОВОРИТ ГЛАВНЫЙ ВРАЧ"),
        ("cp1251", RUSSIAN),
        ("koi8_r", RUSSIAN),
        ("koi8_r", "ветер наполняет парус"),
        ("koi8_u", "Вітер наповнює вітрило, і човен хилиться, поки стерно не стане важким."),
        ("cp866", RUSSIAN),
        ("mac_cyrillic", RUSSIAN),
        ("cp1255", "הרוח ממלאת את המפרש והסירה נוטה עד שההגה נעשה כבד ביד."),
        ("cp1253", "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι."),
        ("cp932", "吾輩は猫である。名前はまだ無い。"),
        ("euc_jp", "どこで生れたかとんと見当がつかぬ。何でも薄暗い所で泣いていた。"),
        ("gb18030", "学而时习之，不亦说乎？有朋自远方来，不亦乐乎？"),
        ("big5", "學而時習之，不亦說乎？有朋自遠方來，不亦樂乎？"),
        ("cp949", "모든 인간은 태어날 때부터 자유로우며 평등하다."),
        ("cp1256", "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق."),
    ],
)
def test_a_legacy_encoding_is_recognized_and_named(
    tmp_path: Path, encoding: str, text: str
) -> None:
    path = write_file(tmp_path, "note.txt", text.encode(encoding))
    assert read_only_source(path).text == text
    reason = f"is not UTF-8 and was read as {encoding}; if letters are wrong, save it as UTF-8"
    assert read_warnings(path) == [("note.txt", reason)]


@pytest.mark.parametrize(
    "text",
    [
        "Le père et la mère de mon frère aiment la crème.",
        "La fenêtre est ouverte, même si la fête est finie.",
        "Le garçon français, ça va, leçon.",
        "Le maître et l'île, le dîner.",
        "Le château et les pâtes, l'âme.",
        "Voilà où il va: là.",
        "À Noël, la mère naïve dînait là-bas.",
        "Il caffè è buono. Il tè è caldo.",
        "È vero che il caffè è caldo, perciò no.",
        "Più giù, laggiù.",
        "La città e la libertà.",
        "João não vai a São Paulo.",
        "Ela põe os aviões.",
        "Você vê três.",
        "El niño y la señora, mañana en España.",
        "¿Qué? ¡Café!",
        "El camión y la canción.",
        "Æbler og pærer er frugter. Det er lærerens æske.",
        "Æblet faldt i går.",
        "Rødgrød med fløde, brød og smør.",
        "På gården står två fåglar.",
        "Smörgås är gott.",
        "Ett öra och en snö.",
        "Hyvää päivää, tämä on hyvä.",
        "Yö ja työ.",
        "Für fünf Brüder.",
        "Der Fuß ist groß, die Straße heiß.",
        "Österreich ist schön.",
        "Mädchen wählen Äpfel.",
        "De coëfficiënt van België.",
        "Geïnteresseerd in egoïsme.",
        "Één idee, één café.",
        "The café serves it.",
        "naïve",
        "Skåne, déjà vu, naïve café",
        "São Paulo",
    ],
)
def test_a_western_text_with_few_accents_is_read_as_cp1252(tmp_path: Path, text: str) -> None:
    path = write_file(tmp_path, "note.txt", text.encode("cp1252"))
    assert read_only_source(path).text == text
    assert "cp1252" in read_warnings(path)[0][1]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Straße «Žižkov», ™ § 5"),
        ("cp932", "カタカナダケデス"),
        ("cp932", "カタカナ"),
        ("cp932", "東京タワー"),
        ("cp932", "See https://example.com/a/long/path/to/the/page: 吾輩は猫である。"),
        ("cp932", "カタカナ テスト メモ"),
        ("cp932", "東京都千代田区 会議議事録 平成二十年"),
        ("gb18030", "今天天气很好，我们去公园散步。"),
    ],
)
def test_a_text_of_unusual_characters_is_read(tmp_path: Path, encoding: str, text: str) -> None:
    assert read_only_source(write_file(tmp_path, "note.txt", text.encode(encoding))).text == text


def test_a_long_text_with_late_japanese_is_recognized(tmp_path: Path) -> None:
    text = "Plain words.\n" * 1_000 + "日本語の文章です。" * 9_001
    assert read_only_source(write_file(tmp_path, "note.txt", text.encode("cp932"))).text == text


@pytest.mark.parametrize(
    ("byte", "lines"),
    [(b"\x81", 20), (b"\x8d", 20), (b"\x8f", 400), (b"\x90", 3_000), (b"\x9d", 20)],
)
def test_an_invalid_byte_is_replaced(tmp_path: Path, lines: int, byte: bytes) -> None:
    text = "Grüße aus München, schöne Straße.\n" * lines
    content = text.encode("cp1252") + b"ein " + byte + b" fremdes Byte"
    path = write_file(tmp_path, "note.txt", content)
    assert read_only_source(path).text == f"{text}ein \ufffd fremdes Byte"
    assert [reason for _, reason in read_warnings(path)] == [
        "is not UTF-8 and was read as cp1252; if letters are wrong, save it as UTF-8",
        "has bytes that are not cp1252 in 1 place, which were replaced with \ufffd",
    ]


@pytest.mark.parametrize(
    "content", ["Grüße aus Köln".encode()[:-8] + b"\xc3", b"\xef\xbb\xbfabc\xe9"]
)
def test_utf_8_with_invalid_bytes_stays_utf_8(tmp_path: Path, content: bytes) -> None:
    path = write_file(tmp_path, "note.txt", content)
    assert read_only_source(path).text == content.decode("utf-8-sig", "replace")
    reason = "has bytes that are not UTF-8 in 1 place, which were replaced with \ufffd"
    assert read_warnings(path) == [("note.txt", reason)]
