"""A Kindle's file of clippings becomes a source for each book, in any language of the device."""

# ruff: noqa: RUF001 - headings in many scripts

from datetime import UTC, datetime
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from functions.jobs.ingest.readers.formats import Identity
from functions.jobs.ingest.readers.kindle.annotation import LANGUAGES
from functions.jobs.ingest.readers.reading import find_format_by_name, find_identity
from functions.jobs.ingest.readers.written_dates import parse_datetime
from shared.knowledge.source import Locator, Section, Source
from tests.support.source_files import (
    read_only_source,
    read_problems,
    read_sources,
    read_warnings,
    write_file,
)

FRIDAY = "Added on Friday, May 31, 2024 4:41:53 PM"
AT_FRIDAY = datetime(2024, 5, 31, 16, 41, 53, tzinfo=UTC)


def make_entry(heading: str, text: str, title: str = "On Sails (Helm, Ann)") -> str:
    """Return a highlight, a note or a bookmark, as its heading says."""
    return f"{title}\n- {heading}\n\n{text}\n==========\n"


def write_clippings(folder: Path, *entries: str) -> Path:
    """Write the entries as a Kindle does: with a byte order mark, and CRLF."""
    content = "\ufeff" + "\ufeff".join(entries)
    return write_file(folder, "My Clippings.txt", content.replace("\n", "\r\n"))


def list_texts(source: Source) -> list[str]:
    return [section.text for section in source.sections]


def make_highlight(locations: str, text: str) -> str:
    return make_entry(f"Your Highlight on Location {locations} | {FRIDAY}", text)


def make_note(location: str, text: str) -> str:
    return make_entry(f"Your Note on Location {location} | {FRIDAY}", text)


def test_the_entries_of_a_book_become_one_source(tmp_path: Path) -> None:
    path = write_clippings(
        tmp_path,
        make_entry(f"Your Highlight on page 12 | Location 150-155 | {FRIDAY}", "Reef early."),
        make_entry(
            f"Your Highlight on page 3 | {FRIDAY}", "Knead\nwell.", "Bread (2nd Edition) (Loaf)"
        ),
        make_entry(f"Your Bookmark on page 13 | Location 160 | {FRIDAY}", ""),
        make_entry(f"Your Note on page 12 | Location 155 | {FRIDAY}", "So true!"),
    )
    sails, bread = read_sources(path)
    assert sails == Source(
        source_id=sails.source_id,
        title="On Sails",
        author="Ann Helm",
        origin="kindle",
        category="books",
        adds_only=True,
        sections=(
            Section(
                "Reef early.\n\nSo true!",
                highlighted_at=AT_FRIDAY,
                locators=((0, Locator(page=12, location="150-155")),),
            ),
        ),
    )
    assert bread.title == "Bread (2nd Edition)"
    assert bread.author == "Loaf"
    assert [(section.text, section.locators) for section in bread.sections] == [
        ("Knead\nwell.", ((0, Locator(page=3)),))
    ]


HEADINGS = """
Your Highlight on page 1 | location 10-12 | Added on Monday, 30 December 2024 14:46:33
Your Highlight on Location 35-36 | Added on Monday, July 20, 2020 12:58:07 AM
Highlight on Page 12 | Loc. 1204-07 | Added on Sunday, September 18, 2011, 10:02 PM
Highlight Loc. 1204-03 | Added on Friday, May 31, 2024, 04:41 PM
Your Highlight on page xii-xiii | Added on Sunday, 18 February 2018 22:30:47
Your Clipping on Unnumbered Page | Location 33-35 | Added on Friday, May 31, 2024 4:41:53 PM
Ihre Markierung auf Seite 42 | Position 1234-1236 | Hinzugefügt am Montag, 4. März 2024 21:46:33
Deine Markierung bei Position 64-64 | Hinzugefügt am So., 05. September 2021 11.44 Uhr GMT+02:00
La subrayado en la página 4 | posición 60-60 | Añadido el miércoles, 6 de julio de 2022 6:54:57
Mi subrayado Posición 120-22 | Añadido el viernes 31 de mayo de 2024, 16:41:53
Seu destaque ou posição 2829 | Adicionado: sexta-feira, 29 de novembro de 2019, 18:00:13
O seu destaque na posição 120-122 | Adicionado a sexta-feira, 31 de maio de 2024 às 16:41:53
Votre surlignement sur la page 200 | emplacement 354-356 | Ajouté le mercredi 16 août 2017 02:14:10
Votre surlignement à l\u02bcemplacement 20-26 | Ajouté le lundi 3 mars 2025 à 22:14:05
Votre surlignement à l'emplacement 9-10 | Ajouté le mercredi 1er août 2018 07:12:34
Votre surlignement Emplacement 307-307 | Ajouté le lundi 17 décembre 2012 à 08:27:45
La tua evidenziazione alla pagina 6 | posizione 36-40 | Aggiunto il lunedì 30 settembre 2019 18:00
Uw markering op pagina 7 | Locatie 120-122 | Toegevoegd op vrijdag 31 mei 2024 16.41.53
26ページ|位置No. 295-296のハイライト | 作成日: 2023年9月4日月曜日 22:53:55
位置No. 422-423のハイライト | 作成日: 2022年12月28日 土曜日 3:21:54
您在位置 #1408-1409的标注 | 添加于 2015年9月26日星期六 下午9:18:28
您在第 28 页(位置 #424-425)的标注 | 添加于 2016年1月21日星期四 上午8:24:51
您在第 7 頁(位置 #120-122)的標註 | 新增於 2024年5月31日星期五 下午4:41:53
Выделенный отрывок на странице 12 | Место 150–155 | Добавлено: пятница, 31 мая 2024 г. в 16:41:53
Twoje zaznaczenie na stronie 12 | lokalizacja 150-155 | Dodano: piątek, 31 maja 2024 16:41:53
12페이지 | 위치 150-155에 있는 하이라이트 | 추가됨 2024년 5월 31일 금요일 오후 4:41:53
12. sayfadaki vurgunuz | Konum 150-155 | Ekleme tarihi 31 Mayıs 2024 Cuma 16:41:53
Din markering på sidan 12 | Plats 150-155 | Tillagd den fredag 31 maj 2024 16:41:53
Dit højdepunkt på side 12 | Placering 150-155 | Tilføjet fredag den 31. maj 2024 16.41.53
Váš text na straně 12 | Umístění 150-55 | Přidáno 31. maj 2024 16.41.53
Din utheving på posisjon 150-155 | Lagt til 31. mai 2024 16.41.53
Az Ön kiemelése | 31. maj 2024 16.41.53
"""
"""Headings of highlights. The last four are in languages that are not known: the page comes before
the location in any language, and a lone number is kept with its words."""


def test_headings_are_read_in_the_languages_of_the_devices(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    headings = HEADINGS.strip().splitlines()
    path = write_clippings(
        tmp_path, *(make_entry(heading, "Words.", heading) for heading in headings)
    )
    lines = []
    for source in read_sources(path):
        [section] = source.sections
        place = section.find_locator(0)
        lines.append(
            f"{source.title}\n    {place.page}, {place.location}, {section.highlighted_at}"
        )
    assert "\n".join(lines) == snapshot
    unknown = f"1 entry with a heading that is not in {LANGUAGES}; kept as a highlight"
    assert [reason for _, reason in read_warnings(path)] == [unknown] * 4


@pytest.mark.parametrize(
    "headings",
    [
        "Your Highlight on Location 7-9; Your Note on Location 9; Your Bookmark on Location 9",
        "Ihre Markierung bei Position 7-9; Ihre Notiz bei Position 9; Ihr Lesezeichen",
        "La subrayado en la posición 7-9; La nota en la posición 9; El marcador en la posición 9",
        "Votre surlignement à l'emplacement 7-9; Votre note à l'emplacement 9; Votre signet",
        "2ページ|位置No. 7-9のハイライト; 2ページ|位置No. 9のメモ; 2ページ|位置No. 9のブックマーク",
        "您在位置 #7-9的标注; 您在位置 #9 的笔记; 您在位置 #9 的书签",
        "Ваш выделенный отрывок | Место 7–9; Заметка | Место 9; Закладка | Место 9",
        "Twoje zaznaczenie | lokalizacja 7-9; Twoja notatka | lokalizacja 9; Twoja zakładka",
        "위치 7-9에 있는 하이라이트; 위치 9에 있는 메모; 위치 9에 있는 북마크",
        "vurgunuz | Konum 7-9; notunuz | Konum 9; yer işaretiniz | Konum 9",
        "Din markering | Plats 7-9; Din anteckning | Plats 9; Ditt bokmärke | Plats 9",
    ],
)
def test_a_note_joins_its_highlight_and_bookmarks_are_left_out(
    tmp_path: Path, headings: str
) -> None:
    """Older devices write the note first."""
    highlight, note, bookmark = (f"{heading} | {FRIDAY}" for heading in headings.split("; "))
    path = write_clippings(
        tmp_path,
        make_entry(note, "Mine."),
        make_entry(highlight, "Theirs."),
        make_entry(bookmark, ""),
    )
    assert list_texts(read_only_source(path)) == ["Theirs.\n\nMine."]
    assert read_warnings(path) == []


@pytest.mark.parametrize(
    ("entries", "passages"),
    [
        pytest.param(
            "H100-104 One. / H104-109 Two. / N104 On one. / N109 On two. / N300 By itself.",
            "One. + On one. / Two. + On two. / By itself.",
            id="a note joins the highlight that ends at its location",
        ),
        pytest.param(
            "Hp5 Far. / Hp5 Near. / Np5 Mine. / Np6 Alone.",
            "Far. / Near. + Mine. / Alone.",
            id="a note without a location joins the nearest highlight on its page",
        ),
        pytest.param(
            "Hp283-284 Reef. / Hp284-285 Ease. / Np284 Mine.",
            "Reef. + Mine. / Ease.",
            id="a note joins the highlight that ends on its page",
        ),
        pytest.param(
            "H100-101 a reef taken early / H100-102 A reef taken early is taken well."
            " / H101-102 taken well / H100-102 A reef taken early is taken well."
            " / H102-103 Another begins here. / H900-901 a reef taken early / N101 Mine.",
            "A reef taken early is taken well. + Mine. / Another begins here. / a reef taken early",
            id="repeated and extended highlights are one",
        ),
        pytest.param(
            "Hp283-283 the middle / Np284-284 Mine / Hp283-284 Before the middle, and after."
            " / Np284 Mine, and longer.",
            "Before the middle, and after. + Mine, and longer.",
            id="a highlight may grow over the page",
        ),
        pytest.param(
            "Hp12 Entropy is what a sail loses. / Hp13 sail",
            "Entropy is what a sail loses. / sail",
            id="a word on another page is a highlight of its own",
        ),
        pytest.param(
            "H7-9 Theirs. / N9 First / N9 First, and second. / N50 Alone / N50 Alone, and longer.",
            "Theirs. + First, and second. / Alone, and longer.",
            id="an edited note replaces its former version",
        ),
        pytest.param("H90 late / H2-3 early", "early / late", id="passages are in reading order"),
        pytest.param(
            "Hp5 Reef early. / Np5 So true! / Hp5 Trim late. / Np5 Not so sure."
            " / Hp5 Reef early. / Np5 So true! / Hp5 Trim late. / Np5 Not so sure.",
            "Reef early. + So true! / Trim late. + Not so sure.",
            id="KOReader appends to the file that it exported before",
        ),
    ],
)
def test_versions_and_notes_of_a_highlight_are_one_passage(
    tmp_path: Path, entries: str, passages: str
) -> None:
    kinds = {"H": make_highlight, "N": make_note}
    made = [
        kinds[entry[0]](*entry[1:].split(" ", 1)).replace("Location p", "page ")
        for entry in entries.split(" / ")
    ]
    texts = list_texts(read_only_source(write_clippings(tmp_path, *made)))
    assert " / ".join(texts).replace("\n\n", " + ") == passages


@pytest.mark.parametrize("heading", ["Your Highlight on page {}", "Your ハイライト {}ページ"])
def test_a_range_of_pages_begins_at_the_first(tmp_path: Path, heading: str) -> None:
    path = write_clippings(tmp_path, make_entry(f"{heading.format('283-284')} | {FRIDAY}", "x"))
    assert read_only_source(path).sections[0].locators == ((0, Locator(page=283)),)


def test_only_a_damaged_byte_is_lost(tmp_path: Path) -> None:
    path = write_clippings(
        tmp_path, make_highlight("10-11", "Größe"), make_highlight("20-21", "Caf?")
    )
    path.write_bytes(path.read_bytes().replace(b"Caf?", b"Caf\xe9"))
    assert list_texts(read_only_source(path)) == ["Größe", "Caf\ufffd"]
    assert len(read_warnings(path)) == 1


UNPLUGGED = "blocks of NUL bytes, as after unplugging; an entry there may be incomplete"


def test_nul_bytes_end_the_text_of_their_entry(tmp_path: Path) -> None:
    """A device that was unplugged leaves such blocks between entries or inside one."""
    entries = [make_highlight(f"{n}0-{n}1", f"Thought {n}, whole.") for n in range(1, 6)]
    path = write_clippings(tmp_path, *entries)
    data = path.read_bytes().replace(b"Thought 2", b"\0" * 600 + b"Thought 2")
    data = data.replace(b"ght 4, whole", b"ght 4" + b"\0" * 4_096) + b"\0" * 512
    path.write_bytes(data)
    assert read_warnings(path) == [
        ("My Clippings.txt: On Sails", "1 entry without text; left out"),
        ("My Clippings.txt: On Sails", f"has 3 damaged {UNPLUGGED}"),
    ]
    assert [name for name, _ in read_problems(path)] == [
        "My Clippings.txt line 9",
        "My Clippings.txt line 19",
    ]
    assert list_texts(read_only_source(path)) == [
        "Thought 1, whole.",
        "Thought 3, whole.",
        "Thought 4",
        "Thought 5, whole.",
    ]


@pytest.mark.parametrize(
    ("line", "title", "author"),
    [
        ("Sapiens (Harari, Yuval Noah)", "Sapiens", "Yuval Noah Harari"),
        ("Inc. (Carney, Brian M.;Isaac Getz)", "Inc.", "Brian M. Carney, Isaac Getz"),
        ("Notes (Inconnu(e))", "Notes", "Inconnu(e)"),
        ("Notes (, Ann)", "Notes", ", Ann"),
        ("Standards (Acme, Inc.)", "Standards", "Acme, Inc."),
        ("Los pilares (Spanish Edition)", "Los pilares (Spanish Edition)", None),
        ("report-2024.pdf", "report-2024.pdf", None),
        ("Dune (Dune Chronicles Book 1) (Ann Helm)", "Dune (Dune Chronicles Book 1)", "Ann Helm"),
        ("Good Omens (Neil Gaiman, Terry Pratchett)", "Good Omens", "Neil Gaiman, Terry Pratchett"),
        ("Sandman (Gaiman, Neil)", "Sandman", "Neil Gaiman"),
        ("Two (Ann B. Helm, Bo C. Sea, Cy Fog)", "Two", "Ann B. Helm, Bo C. Sea, Cy Fog"),
        ("Earthsea (Le Guin, Ursula K.)", "Earthsea", "Ursula K. Le Guin"),
        ("Cien (García Márquez, Gabriel)", "Cien", "Gabriel García Márquez"),
        ("Poems (de la Mare, Walter;Plath, Sylvia)", "Poems", "Walter de la Mare, Sylvia Plath"),
        ("Dream (King Jr., Martin Luther)", "Dream", "Martin Luther King Jr."),
        ("Quijote (Cervantes Saavedra, Miguel de)", "Quijote", "Miguel de Cervantes Saavedra"),
        ("Brain (Jordan B. Helm, Norman Sea M.D.)", "Brain", "Jordan B. Helm, Norman Sea M.D."),
        ("Hard (Ben Helm, Al Sea Fog)", "Hard", "Ben Helm, Al Sea Fog"),
        ("Beyond Justice (Eyal Press)", "Beyond Justice", "Eyal Press"),
        ("In Da Club (50 Cent)", "In Da Club", "50 Cent"),
        ("無職転生 1 (MFブックス) (理不尽な孫の手)", "無職転生 1 (MFブックス)", "理不尽な孫の手"),
        ("Emma (Penguin Classics)", "Emma (Penguin Classics)", None),
        ("Emma (The Expanse, #3)", "Emma (The Expanse, #3)", None),
        ("Emma (Book Two)", "Emma (Book Two)", None),
        ("Emma (A Novel)", "Emma (A Novel)", None),
        ("Emma (1984)", "Emma (1984)", None),
        ("Emma (岩波文庫)", "Emma (岩波文庫)", None),
    ],
)
def test_the_first_line_is_the_title_and_the_author(
    tmp_path: Path, line: str, title: str, author: str | None
) -> None:
    entry = make_entry(f"Your Note on page 1 | {FRIDAY}", "x", line)
    source = read_only_source(write_clippings(tmp_path, entry))
    assert (source.title, source.author) == (title, author)


def test_the_id_of_a_book_does_not_depend_on_its_file(tmp_path: Path) -> None:
    ids = [
        read_only_source(write_clippings(tmp_path / folder, make_highlight("1", text))).source_id
        for folder, text in [("old kindle", "a"), ("new kindle", "b")]
    ]
    assert len(set(ids)) == 1
    assert find_identity(tmp_path / "My Clippings.txt") is Identity.ORIGIN


@pytest.mark.parametrize(
    "name",
    ["My Clippings.txt", "Meine Clippings.TXT", "Mis recortes.txt", "my_clippings-2.txt"],
)
def test_clippings_are_recognized_by_the_name_of_their_file(tmp_path: Path, name: str) -> None:
    file_format = find_format_by_name(tmp_path / name)
    assert file_format is not None
    assert file_format.name == "Kindle clippings"


def test_a_clippings_file_with_another_name_is_refused_with_advice(tmp_path: Path) -> None:
    path = write_file(tmp_path, "kindle.txt", "\ufeff" + make_highlight("1-2", "Reef early."))
    reason = "contains Kindle clippings: rename it to `My Clippings.txt`"
    assert read_problems(path) == [("kindle.txt", reason)]


@pytest.mark.parametrize("content", ["Title\n==========\n- one | 2\n", "- a list | of 2024\n", "x"])
def test_other_text_is_refused_only_in_a_file_named_clippings(tmp_path: Path, content: str) -> None:
    assert len(read_sources(write_file(tmp_path, "plain.txt", content))) == 1
    path = write_file(tmp_path, "newspaper clippings.txt", "Some words.")
    reason = "is not a Kindle's My Clippings.txt: rename it to have it read as text"
    assert read_problems(path) == [("newspaper clippings.txt", reason)]


@pytest.mark.parametrize("content", ["", "\ufeff\r\n"])
def test_an_empty_file_of_clippings_says_so(tmp_path: Path, content: str) -> None:
    assert read_problems(write_clippings(tmp_path, content)) == [("My Clippings.txt", "is empty")]


def test_an_invalid_entry_loses_only_itself(tmp_path: Path) -> None:
    path = write_clippings(
        tmp_path,
        make_highlight("1", "one"),
        "Book\nno heading\n==========\n",
        make_highlight("5", "two"),
    )
    reason = "has no line such as `- Your Highlight on page 12 | Added on ...`"
    assert read_problems(path) == [("My Clippings.txt line 6", reason)]
    assert list_texts(read_only_source(path)) == ["one", "two"]


def test_unreadable_parts_of_entries_are_counted_in_warnings(tmp_path: Path) -> None:
    path = write_clippings(
        tmp_path,
        make_highlight("1-2", "<You have reached the clipping limit for this item>"),
        make_highlight("3-4", " <Sie haben die maximale Anzahl von Clippings erreicht>"),
        make_entry("Your Highlight on Location 5 | Added on Someday, 32 May 2024", "undated"),
        make_entry("Merkintä sijainnissa 114-116 | Lisätty 30. syyskuuta 2019", "Katkelma"),
    )
    assert list_texts(read_only_source(path)) == ["undated", "Katkelma"]
    assert [reason for _, reason in read_warnings(path)] == [
        "2 entries without text: the publisher's limit on clippings was reached; left out",
        f"1 entry with a heading that is not in {LANGUAGES}; kept as a highlight",
        "2 entries with a date that cannot be read; kept without a date",
    ]


def test_a_book_without_any_text_is_reported(tmp_path: Path) -> None:
    limit = "<You have reached the clipping limit for this item>"
    path = write_clippings(tmp_path, make_highlight("1-2", limit))
    reason = "1 entry without text: the publisher's limit on clippings was reached; left out"
    assert read_problems(path) == [("My Clippings.txt: On Sails", f"has no text: {reason}")]


def test_a_file_that_was_cut_off_is_read_to_its_end(tmp_path: Path) -> None:
    content = make_highlight("1", "one") + make_highlight("5", "two")
    path = write_file(tmp_path, "My Clippings.txt", content[: content.index("wo\n")])
    assert list_texts(read_only_source(path)) == ["one", "t"]


def test_many_highlights_at_one_location_are_read(tmp_path: Path) -> None:
    path = write_clippings(
        tmp_path, *(make_highlight("1-9", f"thought {n:04}") for n in range(1_500))
    )
    assert len(read_only_source(path).sections) == 1_500


@pytest.mark.parametrize(
    ("added", "moment"),
    [
        ("添加于 2013年8月5日 星期一 上午09时11分28秒 GMT+08:00", "2013-08-05T01:11:28+00:00"),
        ("添加于 2013年8月5日 星期一 下午09:11:28", "2013-08-05T21:11:28"),
        ("新增於 2013年8月5日 星期一 上午12點05分", "2013-08-05T00:05:00"),
        ("添加于 2025年6月12日星期四 晚上11:02:03", "2025-06-12T23:02:03"),
        ("Ekleme tarihi 1 Ağustos 2024 Perşembe ÖS 4:41:53", "2024-08-01T16:41:53"),
        ("作成日: 2024年5月31日金曜日 午後4:41:53", "2024-05-31T16:41:53"),
        ("作成日: 2024年5月31日金曜日 午前0時5分3秒", "2024-05-31T00:05:03"),
        ("추가됨 2024년 5월 31일 금요일 오후 4:41:53", "2024-05-31T16:41:53"),
        ("추가됨 2024년 5월 31일 금요일 오전 9시 5분 UTC+9", "2024-05-31T00:05:00+00:00"),
        ("Adicionado: 19 de março de 2019 23h32min06s GMT-03:00", "2019-03-20T02:32:06+00:00"),
        ("Añadido el viernes 31 de mayo de 2024 16 h 41 min 53 s", "2024-05-31T16:41:53"),
        ("Ajouté le vendredi 31 mai 2024 16h41", "2024-05-31T16:41:00"),
        ("Aggiunto in data venerdì 31 maggio 2024 16.41.53", "2024-05-31T16:41:53"),
        ("Hinzugefügt am Freitag, 31. Mai 2024 16 Uhr 41", "2024-05-31T16:41:00"),
        ("Toegevoegd op vrijdag 31 mei 2024 16 uur 41", "2024-05-31T16:41:00"),
        ("Added on Friday, May 31, 2024 4:41:53 p.m. GMT-0230", "2024-05-31T19:11:53+00:00"),
        ("Added on Friday, May 31, 2024 GMT+08:00", "2024-05-31T00:00:00"),
        ("Added on Friday, May 31, 2024 3:05 PM GMT+2", "2024-05-31T13:05:00+00:00"),
        ("Added on Friday, May 31, 2024 12:05 AM EST", "2024-05-31T00:05:00"),
        ("Added on Friday, May 31, 2024 12:05:09 am UTC", "2024-05-31T00:05:09+00:00"),
        ("添加于 2013年8月5日 星期一 3时05分 下午 GMT+08:00", "2013-08-05T07:05:00+00:00"),
        ("Added on Monday, 29 April 13 15:24:40 GMT+01:00", "2013-04-29T14:24:40+00:00"),
        ("Friday, May 31st, 2024, 16:41:53 -0300", "2024-05-31T19:41:53+00:00"),
    ],
)
def test_a_time_is_read_with_its_words_and_offset(added: str, moment: str) -> None:
    assert parse_datetime(added) == datetime.fromisoformat(moment)


def test_readwise_action_tags_in_notes_are_applied(tmp_path: Path) -> None:
    """A Kindle knows no chapters, so its readers mark them in notes, for Readwise."""
    path = write_clippings(
        tmp_path,
        make_highlight("10", "Preface."),
        make_highlight("20", "Reefing"),
        make_note("20", ".h1"),
        make_highlight("30-31", "Reef early,"),
        make_note("31", ".c1 .safety Yes!"),
        make_highlight("40", "or not at all."),
        make_note("40", ".c2"),
        make_highlight("50", "Wind"),
        make_note("50", ".h1 Read again."),
        make_note("60", ".h1 about nothing"),
        make_highlight("70", "Thrown away."),
        make_note("70", ".d"),
    )
    sections = read_only_source(path).sections
    assert [(section.text, section.tags, section.find_locator(0)) for section in sections] == [
        ("Preface.", (), Locator(location="10")),
        (
            "Reef early, … or not at all.\n\nYes!",
            ("safety",),
            Locator(location="30-40", chapter="Reefing"),
        ),
        ("Wind\n\nRead again.", (), Locator(location="50", chapter="Wind")),
        (".h1 about nothing", (), Locator(location="60", chapter="Wind")),
    ]
