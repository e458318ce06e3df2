"""A text is split at paragraphs, sentences and words, into chunks or into passages.

A chunk has about the target number of tokens and at most the maximum; the end of a chunk is
repeated in the next one, up to the overlap. A passage has no text of two paragraphs.
"""

import base64
import hashlib
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from shared.text.spans import Span
from shared.text.splitting import MAX_ENTRIES, Limits, split_chunks, split_passages
from shared.text.tokens import MAX_TOKEN, count_tokens

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
LINE_ENDS = ("\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
PROSE = ("word ", "word ", "Another sentence. ", "Dr. ", "z. B. ", "No. ", "3.14 ", "“", "” ")
SCRIPTS = (
    *("他是老师。", "她", "مكتبة ", "؟ ", "क्ष", "ที่"),
    *("각", FAMILY, "👍🏽", "🇩🇪", "🇩", "❤\ufe0f"),
)
LAYOUT = (
    *(*LINE_ENDS, "\n\n", "\r\n\r\n", "\n \n", "\t"),
    *("- item\n", "| a | b |\n", "    x = 1\n", "\n\n# heading\n\n"),
)
ODDITIES = ("A\xa0.", "e\u0301", "\u0301" * 40, "\ud800", "os.path ", "x" * 50, "\x00", "\x1f")
SIGNS = ('"', "(", ")", "\xa0", "\u3000", "\u0600", "\u0d4e", "\u200b", "\ufeff", "\u202e", "\xad")
# Ordinary parts of texts, and parts that often break the splitting of texts.
PIECES = PROSE + SCRIPTS + LAYOUT + ODDITIES + SIGNS
# Texts that repeat one of these might take more time than in proportion to their length.
CLUSTERS = ("e" + "\u0301" * 30, "\u0600", "\u200d", "\u200b", "🇩", "ที่", "\x00", "\ud800")
SPACES = (" ", "\n", "\n" + " " * 99, "\r\nx", "a\n\n", "# a\n\n", "A\xa0.")
HOSTILE = ("x", "他", "他。", "a. ", "“a.” ", "».", "(", "1.", *SPACES, *CLUSTERS)
LONG_TEXTS = st.lists(st.sampled_from(PIECES), min_size=40, max_size=120).map("".join)
TEXTS = st.text() | LONG_TEXTS | LONG_TEXTS.map(lambda text: " ".join(text.split()))
MAX_LENGTHS = st.integers(MAX_TOKEN, 200)
LIMITS = Limits(60, 90, 15)
Split = Callable[[str], list[Span]]
SPLITS = pytest.mark.parametrize(
    "split",
    [partial(split_chunks, limits=LIMITS), partial(split_passages, max_length=300)],
)


@st.composite
def draw_limits(draw: st.DrawFn) -> Limits:
    target = draw(st.integers(1, 40))
    maximum = draw(st.integers(target, 2 * target))
    return Limits(target, maximum, overlap=draw(st.integers(0, target // 2)))


def draw_splits() -> st.SearchStrategy[Split]:
    """Draw a way to split a text."""
    return draw_limits().map(lambda limits: partial(split_chunks, limits=limits)) | MAX_LENGTHS.map(
        lambda max_length: partial(split_passages, max_length=max_length)
    )


def cut(text: str, split: Split) -> list[str]:
    return [text[span.start : span.end] for span in split(text)]


def split_text(text: str, limits: Limits) -> list[str]:
    return cut(text, partial(split_chunks, limits=limits))


def split_into_passages(text: str, max_length: int = 1500) -> list[str]:
    return cut(text, partial(split_passages, max_length=max_length))


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


@given(TEXTS, draw_limits())
def test_chunks_cover_a_text_in_order_within_the_limits(text: str, limits: Limits) -> None:
    spans = split_chunks(text, limits)
    end = 0
    for span in spans:
        chunk = text[span.start : span.end]
        assert not text[end : span.start].strip()
        assert chunk == chunk.strip() != ""
        assert count_tokens(chunk) <= limits.maximum
        end = span.end
    assert not text[end:].strip()
    for span, next_span in pairwise(spans):
        assert span.start < next_span.start
        assert span.end < next_span.end
        assert count_tokens(text[next_span.start : span.end]) <= limits.overlap


@given(TEXTS, draw_limits())
def test_no_word_is_cut_that_fits_a_chunk(text: str, limits: Limits) -> None:
    """Chinese is removed from the texts, as its sentences follow each other without a space."""
    text = regex.sub(r"[\p{Han}。👩👧👦👍🏽]", "", text)
    edges = {edge for span in split_chunks(text, limits) for edge in (span.start, span.end)}
    for word in regex.finditer(r"[^\s\x1c-\x1f]+", text):
        if count_tokens(word[0]) <= limits.maximum:
            assert not any(word.start() < edge < word.end() for edge in edges), word[0]


@pytest.mark.requirement("001-P1")
@given(TEXTS, draw_splits())
def test_no_character_is_cut(text: str, split: Split) -> None:
    edges = {edge for span in split(text) for edge in (span.start, span.end)}
    for cluster in regex.finditer(r"\X", text):
        if len(cluster[0]) <= MAX_TOKEN and not any(map(str.isspace, cluster[0])):
            assert not any(cluster.start() < edge < cluster.end() for edge in edges), cluster[0]


@given(TEXTS, TEXTS, draw_limits())
def test_appending_changes_at_most_the_last_two_chunks(
    text: str, appended_text: str, limits: Limits
) -> None:
    stable_spans = split_chunks(text, limits)[:-2]
    assert split_chunks(text + appended_text, limits)[: len(stable_spans)] == stable_spans


@pytest.mark.parametrize("text", ["", " ", "\n", "\r\n\r\n", " \t\n\n\u3000\xa0\x1c\u2029"])
def test_a_text_of_white_space_alone_has_no_pieces(text: str) -> None:
    assert split_chunks(text, LIMITS) == split_passages(text) == []


@pytest.mark.parametrize("text", ["\u0301", "x", FAMILY, "\ud800", "A\xa0.", "\x00", "One.\nTwo."])
def test_a_short_text_is_one_piece(text: str) -> None:
    assert split_chunks(text, LIMITS) == split_passages(text) == [Span(0, len(text))]


def test_offsets_count_code_points() -> None:
    assert split_chunks("\n\none\r\n", LIMITS) == [Span(2, 5)]
    text = " 👍🏽 " + make_sentences(5)
    assert "".join(split_text(text, LIMITS)) == text.strip()


@pytest.mark.parametrize("blank", ["\n\n", "\r\n\r\n", "\n \t\n", "\n\n\n\n", "\r\r"])
def test_paragraphs_stay_whole_and_do_not_overlap(blank: str) -> None:
    paragraphs = [make_sentences(4)] * 5
    two_paragraphs = blank.join(paragraphs[:2])
    assert split_text(blank.join(paragraphs), Limits(90, 120, 20)) == [
        two_paragraphs,
        two_paragraphs,
        paragraphs[4],
    ]


def test_a_paragraph_that_does_not_fit_is_cut_after_a_sentence() -> None:
    first_chunk, second_chunk, _ = split_text(make_sentences(12), Limits(50, 100, 10))
    assert make_sentences(5) == first_chunk
    assert second_chunk.startswith("Sentence number 4 of")


def test_a_paragraph_ends_a_chunk_that_is_half_full() -> None:
    text = f"{make_sentences(2)}\n\n{make_sentences(8)}"
    first_chunk, *_ = split_text(text, Limits(50, 60, 0))
    assert first_chunk == f"{make_sentences(2)}\n\n{make_sentences(3)}"


def test_the_overlap_stays_within_the_paragraph() -> None:
    text = f"{make_sentences(2)} Yes.\n\n{make_sentences(8)}"
    first_chunk, second_chunk, *_ = split_text(text, Limits(50, 60, 25))
    assert first_chunk.endswith(f"Yes.\n\n{make_sentences(2)}")
    assert second_chunk.startswith(make_sentences(4))


def test_a_sentence_that_crosses_the_target_is_finished() -> None:
    sentence = "word " * 70 + "end."
    assert split_text(f"{sentence} {sentence}", Limits(50, 100, 0)) == [sentence, sentence]


def test_the_overlap_is_dropped_before_a_sentence_of_a_whole_chunk() -> None:
    short_sentences, long_sentence = "This is short. " * 12, "word " * 95 + "end."
    *_, last_chunk = split_text(short_sentences + long_sentence, Limits(50, 100, 25))
    assert long_sentence in last_chunk


def test_a_sentence_over_the_maximum_is_cut_after_a_word() -> None:
    words = [f"w{number}" for number in range(230)]
    first_chunk, second_chunk, *_ = split_text(" ".join(words), Limits(50, 100, 10))
    assert " ".join(words[:50]) == first_chunk
    assert second_chunk.split()[0] == "w40"


def test_a_chunk_has_more_than_one_short_sentence() -> None:
    text = "Yes, it is. " + "word " * 150
    token_counts = [count_tokens(chunk) for chunk in split_text(text, Limits(50, 60, 0))]
    assert token_counts == [50, 50, 55]


def test_a_word_that_fits_a_chunk_stays_whole_after_a_short_one() -> None:
    address = "x" * 6 * 100  # 100 tokens
    assert split_text(f"see {address}", Limits(60, 100, 0)) == ["see", address]


def test_a_short_remainder_joins_the_chunk_before_or_is_made_longer() -> None:
    assert len(split_text(make_sentences(13), Limits(110, 200, 20))) == 1
    chunks = split_text("word " * 100 + "a b c d e", Limits(100, 100, 0))
    assert [count_tokens(chunk) for chunk in chunks] == [85, 20]


@SPLITS
def test_abbreviations_and_decimal_numbers_do_not_end_a_sentence(split: Split) -> None:
    text = "Gestern sprach Prof. Dr. Lang z. B. über 3.5 alte Bäume. " * 40
    assert {piece[-6:] for piece in cut(text, split)} == {"Bäume."}


@SPLITS
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
def test_every_script_is_cut_after_its_sentences(
    sentence: str, full_stop: str, split: Split
) -> None:
    pieces = cut(sentence * 200, split)
    assert len(pieces) > 3
    for piece in pieces:
        assert piece.startswith(sentence[0])
        assert piece.endswith(full_stop)


def test_a_name_with_dots_does_not_end_a_sentence() -> None:
    text = "call os.Path.Join and then www.Example.Com for more " * 30
    chunks = split_text(text, LIMITS)
    assert not any(chunk.startswith(("Path", "Join")) for chunk in chunks)


@SPLITS
def test_tables_and_code_are_cut_between_lines(split: Split) -> None:
    table = [f"| item {number} | {number}.5 kg |" for number in range(60)]
    code = [f"    total_{number} = sum(values[{number}:])" for number in range(60)]
    for lines in (table, code):
        pieces = cut("\n".join(lines), split)
        whole_lines = {line.strip() for line in lines}
        assert len(pieces) > 1
        assert {line.strip() for piece in pieces for line in piece.splitlines()} == whole_lines


def test_one_line_of_a_million_characters_is_cut_at_the_target() -> None:
    chunks = split_text("x" * 1_000_000, LIMITS)
    letters_per_token = 6
    assert {len(chunk) for chunk in chunks[:-1]} == {LIMITS.target * letters_per_token}
    assert sum(map(len, chunks)) == 1_000_000


@pytest.mark.parametrize("values", [(0, 10, 0), (10, 5, 0), (10, 20, 6), (10, 20, -1)])
def test_limits_that_allow_no_progress_are_refused(values: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="overlap"):
        Limits(*values)


def make_noise(size: int) -> bytes:
    """Return random bytes, the same ones for each size."""
    return hashlib.shake_256(b"noise").digest(size)


@given(TEXTS)
def test_blank_lines_separate_paragraphs(text: str) -> None:
    text = regex.sub(r"[#|-]", "", text)  # no headings, no lists
    assert split_into_passages(text, max(len(text), MAX_TOKEN)) == split_paragraphs(text)


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
    assert split_into_passages(text) == [
        "# Shop\n\n## Refunds\n\nWithin 30 days.",
        "In cash.",
        "## Opening",
    ]
    assert split_into_passages("## Refunds\n\n" + "x" * 38, 50) == ["## Refunds\n\n" + "x" * 38]
    assert split_into_passages("## Refunds\n\n" + "x" * 39, 50) == ["## Refunds", "x" * 39]
    assert split_into_passages("#!/bin/sh\n\nls") == ["#!/bin/sh", "ls"]


@pytest.mark.parametrize("line_end", LINE_ENDS)
def test_a_blank_line_ends_a_passage_but_a_line_end_does_not(line_end: str) -> None:
    lines = ["one", "two", "", "three", " \t\xa0", "", "four", ""]
    expected = [f"one{line_end}two", "three", "four"]
    assert split_into_passages(line_end.join(lines)) == expected


@pytest.mark.requirement("001-P1")
def test_a_paragraph_that_is_too_long_is_cut_after_a_sentence() -> None:
    first_passage, second_passage = split_into_passages(make_sentences(60))
    assert first_passage.count(".") == 35
    assert make_sentences(60) == f"{first_passage} {second_passage}"


def test_a_sentence_that_exactly_fills_a_passage_is_not_cut() -> None:
    sentence = "x" * 60 + " y end."
    assert split_into_passages(" ".join([sentence] * 3), len(sentence)) == [
        sentence,
        sentence,
        sentence,
    ]


def test_a_sentence_stays_whole_after_a_short_one() -> None:
    short_sentences = make_sentences(8)
    long_sentence = "word " * 250 + "end."
    assert split_into_passages(f"{short_sentences} {long_sentence}") == [
        short_sentences,
        long_sentence,
    ]


def test_passage_never_ends_nearly_empty() -> None:
    passages = split_into_passages("Yes. " + "word " * 400)
    assert passages[0][:9] == "Yes. word"
    assert len(passages[0]) > 1490


def test_the_last_passage_is_a_fifth_full_where_no_sentence_is_cut() -> None:
    passages = split_into_passages(make_sentences(36))
    assert [passage.count(".") for passage in passages] == [29, 7]
    long_sentence = "word " * 298 + "end."
    assert split_into_passages(f"{long_sentence} Yes, sir.") == [long_sentence, "Yes, sir."]


@pytest.mark.parametrize(
    "line",
    ["x" * 1_000_000, "他是老师学生" * 166_666, base64.b64encode(make_noise(750_000)).decode()],
    ids=["letters", "Chinese without punctuation", "base64"],
)
def test_a_line_of_a_million_characters_makes_full_passages(line: str) -> None:
    passages = split_into_passages(line)
    assert "".join(passages) == line
    assert all(len(passage) > 1490 for passage in passages[:-2])


def test_a_limit_below_the_longest_token_is_refused() -> None:
    with pytest.raises(ValueError, match="32"):
        split_passages("text", MAX_TOKEN - 1)


def test_entries_of_logs_and_lists_are_passages_of_their_own() -> None:
    trace = "10:02 ERROR Failed.\n  at charge (pay.js:118)\n  at main (pay.js:3)"
    log = f"10:01 INFO Done.\n{trace}\n10:03 INFO Done again."
    steps = "# Steps\n\n- Knead.\n- Bake."
    assert split_into_passages(f"{log}\n\n{steps}") == [
        "10:01 INFO Done.",
        trace,
        "10:03 INFO Done again.",
        "# Steps\n\n- Knead.",
        "- Bake.",
    ]


def test_short_entries_of_a_long_log_share_passages() -> None:
    log = "\n".join(f"10:00:00 INFO Job {number} is done." for number in range(3 * MAX_ENTRIES))
    passages = split_into_passages(log)
    assert MAX_ENTRIES / 2 < len(passages) <= MAX_ENTRIES
    assert "\n".join(passages) == log


def measure_seconds(part: str, length: int) -> float:
    """Return the least CPU time of three attempts for a text of repeated parts."""
    text = (part * (length // len(part) + 1))[:length]
    durations: list[float] = []
    for _ in range(3):
        start = time.process_time()
        split_passages(text)
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
