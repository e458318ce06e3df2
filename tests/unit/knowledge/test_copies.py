"""Which passages say the same."""

import pytest

from shared.knowledge.chunk import Chunk
from shared.knowledge.copies import fold

TEXT = "Oil is cheaper than regret, and a cold start does the damage."


def make_chunk(number: int, content: str, origin: str = "kindle", **fields: str) -> Chunk:
    return Chunk(
        f"book-{number}",
        "Engines",
        chunk_id=f"chunk-{number}",
        start=0,
        end=len(content),
        position=1,
        total=1,
        content=content,
        origin=origin,
        **fields,  # type: ignore[arg-type]
    )


def are_folded(first: Chunk, second: Chunk) -> bool:
    forwards, backwards = fold([first, second]), fold([second, first])
    assert len(forwards) == len(backwards)
    return forwards == {first.id: [second]}


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("The  Tide\nwaits", "the tide waits."),
        ("\u201cEbb\u201d isn\u2019t \u201closs\u201d", '"Ebb" isn\'t "loss"'),
        ("now \u2013 or never", "now \u2014 or never"),
        ("the har\u00adbour", "the harbour"),
        ("of\ufb01ce", "office"),
        ("C\uff0b\uff0b", "C++"),
    ],
)
def test_texts_that_differ_in_typography_are_folded(text: str, other: str) -> None:
    assert are_folded(make_chunk(1, text), make_chunk(2, other))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Torque them to 90 Nm.", "Torque them to 95 Nm."),
        ("Wait 10² seconds", "Wait 102 seconds"),
        ("Set it to -5", "Set it to 5"),
        ("Written in C", "Written in C++"),
        (TEXT, f"{TEXT} And more."),
    ],
)
def test_other_texts_of_one_origin_are_not_folded(text: str, other: str) -> None:
    assert not are_folded(make_chunk(1, text), make_chunk(2, other))


@pytest.mark.parametrize("longer", [f"{TEXT} And more.", f"Indeed: {TEXT}"])
def test_a_longer_version_of_another_origin_is_folded(longer: str) -> None:
    kindle = make_chunk(1, TEXT)
    assert are_folded(kindle, make_chunk(2, longer, "reader"))
    readwise = make_chunk(2, longer, readwise_url="https://readwise.io/open/1")
    assert are_folded(kindle, readwise)


@pytest.mark.parametrize(
    "other",
    [
        f"{TEXT} Not always.",
        f"{TEXT} By 3.",
        TEXT.replace("cheaper", "dearer"),
        f"{TEXT} {TEXT} Both are in this long page.",
    ],
)
def test_another_statement_of_another_origin_is_not_folded(other: str) -> None:
    assert not are_folded(make_chunk(1, TEXT), make_chunk(2, other, "reader"))


def test_the_first_stands_for_all_others() -> None:
    chunks = [make_chunk(number, f"Text {number % 2}") for number in range(5)]
    assert fold(chunks) == {
        "chunk-0": [chunks[2], chunks[4]],
        "chunk-1": [chunks[3]],
    }
