"""A text is split into chunks at paragraphs, sentences and words, within limits of tokens.

A chunk has about the target number of tokens and at most the maximum; the end of a chunk is
repeated in the next one, up to the overlap.
"""

from itertools import pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from shared.text.chunking import ChunkLimits, split_chunks
from shared.text.spans import Span
from shared.text.tokens import MAX_TOKEN, count_tokens

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
PROSE = ("word ", "word ", "Another sentence. ", "Dr. ", "z. B. ", "No. ", "He said: “", "” ")
SCRIPTS = ("他是老师。", "她", "مكتبة ", "؟ ", "क्ष", "ที่", FAMILY, "👍🏽", "🇩🇪", "🇩")
LAYOUT = ("\n\n", "\r\n\r\n", "\r\n", "\n", "\t", "- item\n", "| a | b |\n", "    return x\n")
ODDITIES = ("A\xa0.", "e\u0301", "\u0301" * 40, "\ud800", "os.path ", "x" * 50)
SIGNS = ('"', "(", ")", "\xa0", "\u2029", "\u0301", "\u0600", "\u0d4e")
# Ordinary parts of texts, and parts that often break the splitting of texts.
PIECES = PROSE + SCRIPTS + LAYOUT + ODDITIES + SIGNS
TEXTS = st.text() | st.lists(st.sampled_from(PIECES), min_size=40, max_size=120).map("".join)


@st.composite
def draw_limits(draw: st.DrawFn) -> ChunkLimits:
    target = draw(st.integers(1, 40))
    maximum = draw(st.integers(target, 2 * target))
    return ChunkLimits(target, maximum, overlap=draw(st.integers(0, target // 2)))


def split_text(text: str, limits: ChunkLimits) -> list[str]:
    return [text[span.start : span.end] for span in split_chunks(text, limits)]


def make_sentences(count: int) -> str:
    return " ".join(f"Sentence number {number} of this text ends here." for number in range(count))


@given(TEXTS, draw_limits())
def test_chunks_cover_a_text_in_order_within_the_limits(text: str, limits: ChunkLimits) -> None:
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
def test_no_word_is_cut_that_fits_a_chunk(text: str, limits: ChunkLimits) -> None:
    """Chinese is removed from the texts, as its sentences follow each other without a space."""
    text = regex.sub(r"[\p{Han}。👩👧👦👍🏽]", "", text)
    edges = {edge for span in split_chunks(text, limits) for edge in (span.start, span.end)}
    for word in regex.finditer(r"[^\s\x1c-\x1f]+", text):
        if count_tokens(word[0]) <= limits.maximum:
            assert not any(word.start() < edge < word.end() for edge in edges), word[0]


@given(TEXTS, draw_limits())
def test_no_character_is_cut(text: str, limits: ChunkLimits) -> None:
    edges = {edge for span in split_chunks(text, limits) for edge in (span.start, span.end)}
    for cluster in regex.finditer(r"\X", text):
        if len(cluster[0]) <= MAX_TOKEN and not any(map(str.isspace, cluster[0])):
            assert not any(cluster.start() < edge < cluster.end() for edge in edges), cluster[0]


@given(TEXTS, TEXTS, draw_limits())
def test_appending_changes_at_most_the_last_two_chunks(
    text: str, appended_text: str, limits: ChunkLimits
) -> None:
    stable_spans = split_chunks(text, limits)[:-2]
    assert split_chunks(text + appended_text, limits)[: len(stable_spans)] == stable_spans


@pytest.mark.parametrize("text", ["", " ", "\n", "\r\n\r\n", " \t\n\n\u3000\xa0\x1c\u2029"])
def test_a_text_of_white_space_alone_has_no_chunks(text: str) -> None:
    assert split_chunks(text) == []


@pytest.mark.parametrize("text", ["\u0301", "x", FAMILY, "\ud800", "A\xa0.", "One.\n\nTwo."])
def test_a_short_text_is_one_chunk(text: str) -> None:
    assert split_chunks(text) == [Span(0, len(text))]


def test_offsets_count_code_points() -> None:
    assert split_chunks("\n\none\r\n") == [Span(2, 5)]
    text = " 👍🏽 " + make_sentences(5)
    assert "".join(split_text(text, ChunkLimits())) == text.strip()


@pytest.mark.parametrize("blank", ["\n\n", "\r\n\r\n", "\n \t\n", "\n\n\n\n", "\r\r"])
def test_paragraphs_stay_whole_and_do_not_overlap(blank: str) -> None:
    paragraphs = [make_sentences(4)] * 5
    two_paragraphs = blank.join(paragraphs[:2])
    assert split_text(blank.join(paragraphs), ChunkLimits(90, 120, 20)) == [
        two_paragraphs,
        two_paragraphs,
        paragraphs[4],
    ]


def test_a_paragraph_that_does_not_fit_is_cut_after_a_sentence() -> None:
    first_chunk, second_chunk, _ = split_text(make_sentences(12), ChunkLimits(50, 100, 10))
    assert make_sentences(5) == first_chunk
    assert second_chunk.startswith("Sentence number 4 of")


def test_a_paragraph_ends_a_chunk_that_is_half_full() -> None:
    text = f"{make_sentences(2)}\n\n{make_sentences(8)}"
    first_chunk, *_ = split_text(text, ChunkLimits(50, 60, 0))
    assert first_chunk == f"{make_sentences(2)}\n\n{make_sentences(3)}"


def test_the_overlap_stays_within_the_paragraph() -> None:
    text = f"{make_sentences(2)} Yes.\n\n{make_sentences(8)}"
    first_chunk, second_chunk, *_ = split_text(text, ChunkLimits(50, 60, 25))
    assert first_chunk.endswith(f"Yes.\n\n{make_sentences(2)}")
    assert second_chunk.startswith(make_sentences(4))


def test_a_sentence_that_crosses_the_target_is_finished() -> None:
    sentence = "word " * 70 + "end."
    assert split_text(f"{sentence} {sentence}", ChunkLimits(50, 100, 0)) == [sentence, sentence]


def test_the_overlap_is_dropped_before_a_sentence_of_a_whole_chunk() -> None:
    short_sentences, long_sentence = "This is short. " * 12, "word " * 95 + "end."
    *_, last_chunk = split_text(short_sentences + long_sentence, ChunkLimits(50, 100, 25))
    assert long_sentence in last_chunk


def test_a_sentence_over_the_maximum_is_cut_after_a_word() -> None:
    words = [f"w{number}" for number in range(230)]
    first_chunk, second_chunk, *_ = split_text(" ".join(words), ChunkLimits(50, 100, 10))
    assert " ".join(words[:50]) == first_chunk
    assert second_chunk.split()[0] == "w40"


def test_a_chunk_has_more_than_one_short_sentence() -> None:
    text = "Yes, it is. " + "word " * 150
    token_counts = [count_tokens(chunk) for chunk in split_text(text, ChunkLimits(50, 60, 0))]
    assert token_counts == [50, 50, 55]


def test_a_word_that_fits_a_chunk_stays_whole_after_a_short_one() -> None:
    address = "x" * 6 * 100  # 100 tokens
    assert split_text(f"see {address}", ChunkLimits(60, 100, 0)) == ["see", address]


def test_a_short_remainder_joins_the_chunk_before_if_it_fits() -> None:
    assert len(split_text(make_sentences(13), ChunkLimits(110, 200, 20))) == 1
    chunks = split_text("word " * 100 + "a b c d e", ChunkLimits(100, 100, 0))
    assert [count_tokens(chunk) for chunk in chunks] == [100, 5]


def test_german_abbreviations_do_not_end_a_sentence() -> None:
    text = "Gestern sprach Prof. Dr. Lang z. B. über Bäume. " * 40
    assert {chunk[-6:] for chunk in split_text(text, ChunkLimits(60, 90, 15))} == {"Bäume."}


@pytest.mark.parametrize(
    ("sentence", "full_stop"),
    [
        ("他是老师。", "。"),
        ("彼は先生です。", "。"),
        ("أين تقع المكتبة الجديدة؟ ", "؟"),
        ("वह एक शिक्षक है। ", "।"),
    ],
)
def test_every_script_is_cut_after_its_sentences(sentence: str, full_stop: str) -> None:
    chunks = split_text(sentence * 60, ChunkLimits(60, 90, 15))
    assert len(chunks) > 3
    for chunk in chunks:
        assert chunk.startswith(sentence[0])
        assert chunk.endswith(full_stop)


def test_a_name_with_dots_does_not_end_a_sentence() -> None:
    text = "call os.Path.Join and then www.Example.Com for more " * 30
    chunks = split_text(text, ChunkLimits(60, 90, 15))
    assert not any(chunk.startswith(("Path", "Join")) for chunk in chunks)


def test_tables_and_code_are_cut_between_lines() -> None:
    table = [f"| item {number} | {number}.5 kg |" for number in range(60)]
    code = [f"    total_{number} = sum(values[{number}:])" for number in range(60)]
    for lines in (table, code):
        chunks = split_text("\n".join(lines), ChunkLimits(60, 90, 15))
        whole_lines = {line.strip() for line in lines}
        assert len(chunks) > 1
        assert {line.strip() for chunk in chunks for line in chunk.splitlines()} == whole_lines


def test_one_line_of_a_million_characters_is_cut_at_the_target() -> None:
    chunks = split_text("x" * 1_000_000, ChunkLimits())
    default_target, letters_per_token = 512, 6
    assert {len(chunk) for chunk in chunks[:-1]} == {default_target * letters_per_token}
    assert sum(map(len, chunks)) == 1_000_000


@pytest.mark.parametrize("values", [(0, 10, 0), (10, 5, 0), (10, 20, 6), (10, 20, -1)])
def test_limits_that_allow_no_progress_are_refused(values: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="overlap"):
        ChunkLimits(*values)
