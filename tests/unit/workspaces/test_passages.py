"""A text is split into passages at paragraphs, sentences and words, and passages are cleaned."""

import base64
import hashlib
import time
import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from shared.text.passages import normalize_line, split_passages
from shared.text.spans import Span
from shared.text.tokens import MAX_TOKEN

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
LINE_ENDS = ("\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
PROSE = ("word ", "word ", "Another sentence. ", "Dr. ", "z. B. ", "No. ", "3.14 ", "“", "” ")
SCRIPTS = (
    *("他是老师。", "她", "مكتبة ", "؟ ", "क्ष", "ที่"),
    *("각", FAMILY, "👍🏽", "🇩🇪", "🇩", "❤\ufe0f"),
)
LAYOUT = (*LINE_ENDS, "\n\n", "\r\n\r\n", "\n \n", "\t", "- item\n", "| a | b |\n", "    x = 1\n")
ODDITIES = ("A\xa0.", "e\u0301", "\u0301" * 40, "\ud800", "os.path ", "x" * 50, "\x00", "\x1f")
SIGNS = ('"', "(", ")", "\xa0", "\u3000", "\u0600", "\u0d4e", "\u200b", "\ufeff", "\u202e", "\xad")
# Ordinary and difficult parts of texts. Random characters would rarely form them.
PIECES = PROSE + SCRIPTS + LAYOUT + ODDITIES + SIGNS
# Texts that repeat one of these might take more time than in proportion to their length.
CLUSTERS = ("e" + "\u0301" * 30, "\u0600", "\u200d", "\u200b", "🇩", "ที่", "\x00", "\ud800")
SPACES = (" ", "\n", "\n" + " " * 99, "\r\nx", "a\n\n", "A\xa0.")
HOSTILE = ("x", "他", "他。", "a. ", "“a.” ", "».", "(", "1.", *SPACES, *CLUSTERS)
LONG_TEXTS = st.lists(st.sampled_from(PIECES), min_size=40, max_size=120).map("".join)
ONE_LINE = LONG_TEXTS.map(lambda text: " ".join(text.split()))
TEXTS = st.text() | st.text(st.characters()) | LONG_TEXTS | ONE_LINE
MAX_LENGTHS = st.integers(MAX_TOKEN, 200)


def split_text(text: str, max_length: int = 1500) -> list[str]:
    return [text[span.start : span.end] for span in split_passages(text, max_length)]


def split_paragraphs(text: str) -> list[str]:
    """Return the texts between blank lines, line by line."""
    paragraphs = [""]
    for line in text.splitlines(keepends=True):
        if line.strip():
            paragraphs[-1] += line
        else:
            paragraphs.append("")
    return [paragraph.strip() for paragraph in paragraphs if paragraph]


def make_sentences(count: int) -> str:
    return " ".join(f"Sentence number {number} of this text ends here." for number in range(count))


def make_noise(size: int) -> bytes:
    """Return random bytes, the same ones for each size."""
    return hashlib.shake_256(b"noise").digest(size)


@given(TEXTS)
def test_blank_lines_separate_paragraphs(text: str) -> None:
    assert split_text(text, max(len(text), MAX_TOKEN)) == split_paragraphs(text)


@given(TEXTS, MAX_LENGTHS)
def test_passages_cover_a_text_in_order_within_the_limit(text: str, max_length: int) -> None:
    """A heading is joined with the next paragraph; no other passage has text of two."""
    end = 0
    for span in split_passages(text, max_length):
        passage = text[span.start : span.end]
        assert not text[end : span.start].strip()
        assert end <= span.start < span.end
        assert passage == passage.strip() != ""
        assert len(passage) <= max_length
        assert passage.startswith("#") or split_paragraphs(passage) == [passage]
        end = span.end
    assert not text[end:].strip()


def test_heading_stays_with_the_next_paragraph() -> None:
    text = "# Shop\n\n## Refunds\n\nWithin 30 days.\n\nIn cash.\n\n## Opening\n\n"
    assert split_text(text) == ["# Shop\n\n## Refunds\n\nWithin 30 days.", "In cash.", "## Opening"]
    assert split_text("## Refunds\n\n" + "x" * 38, 50) == ["## Refunds\n\n" + "x" * 38]
    assert split_text("## Refunds\n\n" + "x" * 39, 50) == ["## Refunds", "x" * 39]
    assert split_text("#!/bin/sh\n\nls") == ["#!/bin/sh", "ls"]


@pytest.mark.requirement("001-P1")
@given(TEXTS, MAX_LENGTHS)
def test_no_character_is_cut(text: str, max_length: int) -> None:
    edges = {edge for span in split_passages(text, max_length) for edge in (span.start, span.end)}
    for cluster in regex.finditer(r"\X", text):
        if len(cluster[0]) <= MAX_TOKEN and not any(map(str.isspace, cluster[0])):
            assert not any(cluster.start() < edge < cluster.end() for edge in edges), cluster[0]


@given(TEXTS, MAX_LENGTHS)
def test_no_word_is_cut_that_fits_four_fifths_of_a_passage(text: str, max_length: int) -> None:
    """Wide characters are removed from the texts, as no spaces separate their sentences."""
    text = "".join(
        character for character in text if unicodedata.east_asian_width(character) not in "WF"
    )
    edges = {edge for span in split_passages(text, max_length) for edge in (span.start, span.end)}
    for word in regex.finditer(r"[^\s\x1c-\x1f]+", text):
        if len(word[0]) <= max_length - max_length // 5:
            assert not any(word.start() < edge < word.end() for edge in edges), word[0]


@pytest.mark.parametrize("text", ["", " ", "\n", "\r\n\r\n", " \t\n\n\u3000\xa0\x1c\u2029\x1f"])
def test_a_text_of_white_space_alone_has_no_passages(text: str) -> None:
    assert split_passages(text) == []


@pytest.mark.parametrize(
    "text", ["\u0301", "x", FAMILY, "\ud800", "A\xa0.", "\x00", "One.\nTwo.", make_sentences(30)]
)
def test_a_paragraph_that_fits_is_one_passage(text: str) -> None:
    assert split_passages(text) == [Span(0, len(text))]


@pytest.mark.parametrize("line_end", LINE_ENDS)
def test_a_blank_line_ends_a_passage_but_a_line_end_does_not(line_end: str) -> None:
    lines = ["one", "two", "", "three", " \t\xa0", "", "four", ""]
    expected = [f"one{line_end}two", "three", "four"]
    assert split_text(line_end.join(lines)) == expected


def test_offsets_count_code_points() -> None:
    assert split_passages(f" 👍🏽\r\n\n{FAMILY}\n") == [Span(1, 3), Span(6, 13)]
    assert split_text("end of a page\n\fnext page") == ["end of a page", "next page"]


@pytest.mark.requirement("001-P1")
def test_a_paragraph_that_is_too_long_is_cut_after_a_sentence() -> None:
    first_passage, second_passage = split_text(make_sentences(60))
    assert first_passage.count(".") == 35
    assert make_sentences(60) == f"{first_passage} {second_passage}"


def test_a_sentence_that_exactly_fills_a_passage_is_not_cut() -> None:
    sentence = "x" * 60 + " y end."
    assert split_text(" ".join([sentence] * 3), len(sentence)) == [sentence, sentence, sentence]


def test_a_sentence_over_the_limit_is_cut_after_a_word() -> None:
    words = [f"w{number}" for number in range(1000)]
    passages = split_text(" ".join(words))
    assert words == [word for passage in passages for word in passage.split()]
    assert all(len(passage) > 1490 for passage in passages[:-1])


def test_a_sentence_stays_whole_after_a_short_one() -> None:
    short_sentences = make_sentences(8)
    long_sentence = "word " * 250 + "end."
    assert split_text(f"{short_sentences} {long_sentence}") == [short_sentences, long_sentence]


def test_passage_never_ends_nearly_empty() -> None:
    passages = split_text("Yes. " + "word " * 400)
    assert passages[0][:9] == "Yes. word"
    assert len(passages[0]) > 1490


def test_the_last_passage_is_a_fifth_full_where_no_sentence_is_cut() -> None:
    passages = split_text(make_sentences(36))
    assert [passage.count(".") for passage in passages] == [29, 7]
    long_sentence = "word " * 298 + "end."
    assert split_text(f"{long_sentence} Yes, sir.") == [long_sentence, "Yes, sir."]


def test_abbreviations_and_decimal_numbers_do_not_end_a_sentence() -> None:
    text = "Gestern sprach Prof. Dr. Lang z. B. über 3.5 Mio. alte Bäume. " * 60
    assert {passage[-6:] for passage in split_text(text)} == {"Bäume."}


@pytest.mark.parametrize(
    ("sentence", "full_stop"),
    [
        ("他是老师。", "。"),
        ("彼は先生です。", "。"),
        ("أين تقع المكتبة الجديدة؟ ", "؟"),
        ("वह एक शिक्षक है। ", "।"),
        ("Die Donaudampfschifffahrtsgesellschaft fährt. ", "."),
        ("ฉันไปตลาดเพื่อซื้อผลไม้ ", "ผลไม้"),
    ],
)
def test_every_script_is_cut_after_its_sentences(sentence: str, full_stop: str) -> None:
    passages = split_text(sentence * 400)
    assert len(passages) > 1
    for passage in passages:
        assert passage.startswith(sentence[0])
        assert passage.endswith(full_stop)


def test_tables_and_code_are_cut_between_lines() -> None:
    table = [f"| item {number} | {number}.5 kg |" for number in range(300)]
    code = [f"    total_{number} = sum(values[{number}:])" for number in range(200)]
    for lines in (table, code):
        passages = split_text("\n".join(lines))
        whole_lines = [line.strip() for line in lines]
        assert len(passages) > 1
        assert [line.strip() for text in passages for line in text.splitlines()] == whole_lines


@pytest.mark.parametrize(
    "line",
    ["x" * 1_000_000, "他是老师学生" * 166_666, base64.b64encode(make_noise(750_000)).decode()],
    ids=["letters", "Chinese without punctuation", "base64"],
)
def test_a_line_of_a_million_characters_makes_full_passages(line: str) -> None:
    passages = split_text(line)
    assert "".join(passages) == line
    assert all(len(passage) > 1490 for passage in passages[:-2])


def test_spaces_and_noise_are_split_without_loss() -> None:
    assert split_text(f"one{' ' * 1_000_000}two") == ["one", "two"]
    junk = make_noise(50_000).decode("latin-1")
    assert "".join("".join(split_text(junk)).split()) == "".join(junk.split())


def test_a_limit_below_the_longest_token_is_refused() -> None:
    with pytest.raises(ValueError, match="32"):
        split_passages("text", MAX_TOKEN - 1)


def measure_seconds(part: str, length: int) -> float:
    """Return the least CPU time of three attempts for a text of repeated parts."""
    text = (part * (length // len(part) + 1))[:length]
    durations: list[float] = []
    for _ in range(3):
        start = time.process_time()
        for span in split_passages(text):
            normalize_line(text[span.start : span.end])
        durations.append(time.process_time() - start)
    return min(durations)


@pytest.mark.slow
@pytest.mark.parametrize("part", HOSTILE)
def test_four_times_the_text_takes_about_four_times_the_time(part: str) -> None:
    """A quadratic algorithm would take sixteen times as long."""
    measurement_noise = 0.005
    short_time = measure_seconds(part, 20_000)
    long_time = measure_seconds(part, 80_000)
    assert long_time + measurement_noise < (short_time + measurement_noise) * 4 * 2.5


def list_visible_characters(text: str) -> list[str]:
    """Return the letters, numbers and signs of a text."""
    return [character for character in text if unicodedata.category(character)[0] in "LMNPS"]


@given(TEXTS)
def test_a_cleaned_text_is_one_line_of_what_is_visible(text: str) -> None:
    line = normalize_line(text)
    assert normalize_line(line) == line == " ".join(line.split())
    assert {unicodedata.category(character) for character in line}.isdisjoint({"Cc", "Cs"})
    assert list_visible_characters(line) == list_visible_characters(text)


@pytest.mark.requirement("001-P2")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" one\r\n\ttwo\u3000\xa0three\x1c\x1ffour\u2028", "one two three four"),
        ("a\x00b\x1b[0m\x7f\x9f", "ab[0m"),
        ("zero\u200bwidth \u200b word\u2060joiner\ufeff", "zerowidth wordjoiner"),
        ("\u202eright\u202c \u2067to\u2069 \u200fleft\u061c", "right to left"),
        ("Donau\xaddampf\xadschiff", "Donaudampfschiff"),
        ("a\ud800b\udfff", "ab"),
        (f"{FAMILY} ❤\ufe0f 👍🏽", f"{FAMILY} ❤\ufe0f 👍🏽"),
        ("می\u200cروم क्\u200dष", "می\u200cروم क्\u200dष"),
        ("e\u0301 ﬁ \uff21 ½", "e\u0301 ﬁ \uff21 ½"),
        ("\x00\ufeff \u200b\r\n\ud800", ""),
        ("", ""),
    ],
)
def test_a_text_is_cleaned(text: str, expected: str) -> None:
    assert normalize_line(text) == expected
