"""A snippet is the beginning of a passage; an excerpt is the part that matches a query best."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.text.excerpts import MIN_LENGTH, TOTAL_LENGTH, Excerpt, find_excerpt, share_excerpts
from shared.text.markup import to_plain_line
from shared.text.snippets import SNIPPET_LENGTH, make_snippet
from shared.text.terms import MAX_TERM, terms
from tests.support.profiling import count_calls

PIECES = (
    *("whale ", "Whales, ", "ship ", "a ", "\n\n", "x" * 30 + " "),
    *("東京の", "e\u0301 ", "anchor. "),
)
TEXTS = st.text(alphabet=st.sampled_from("ab,.\n \té"), max_size=3 * SNIPPET_LENGTH)


@pytest.mark.parametrize(
    ("content", "snippet"),
    [
        ("Knead the dough.", "Knead the dough."),
        ("a" * SNIPPET_LENGTH, "a" * SNIPPET_LENGTH),
        ("a" * 300, "a" * (SNIPPET_LENGTH - 1) + "…"),
        (" one\n\n two\t three ", "one two three"),
        ("word " * 100, "word " * 55 + "word…"),
        *((f"{'a' * 270}{sign} {'b' * 270}", "a" * 270 + "…") for sign in ",;:."),
        # What a last word would fill is left out if it is at most 60 characters.
        (f"{'a' * 220} {'b' * 90}", f"{'a' * 220}…"),
        (f"{'a' * 219} {'b' * 90}", f"{'a' * 219} {'b' * 59}…"),
        (f"{'a' * 225} {'b' * 60}", f"{'a' * 225}…"),
        ("* * *\n\n---", "* * * ---"),
    ],
)
def test_a_snippet_is_the_beginning_up_to_a_word(content: str, snippet: str) -> None:
    assert make_snippet(content) == snippet


@given(TEXTS | st.text(max_size=2 * SNIPPET_LENGTH))
def test_a_snippet_is_the_beginning_on_one_line(content: str) -> None:
    line = to_plain_line(content)
    text = make_snippet(content)
    assert len(text) <= SNIPPET_LENGTH
    assert len(text.splitlines()) <= 1
    assert text == line or line.startswith(text.removesuffix("…"))


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=20), max_size=200))
def test_a_snippet_has_whole_words_only(words_of_passage: list[str]) -> None:
    snippet_words = make_snippet(" ".join(words_of_passage)).removesuffix("…").split()
    assert snippet_words == words_of_passage[: len(snippet_words)]


@pytest.mark.parametrize(
    "character", ["e\u0301\u0323", "👩‍👩‍👧‍👦", "\u1100\u1161\u11a8", "क्षि", "🇩🇪"]
)
def test_no_character_is_cut(character: str) -> None:
    for opening in ("", "x", "xy", "xyz", "Some words. "):
        snippet = make_snippet(opening + character * 200)
        characters = snippet.removesuffix("…").removeprefix(opening)
        assert characters == character * (len(characters) // len(character))


def test_a_short_passage_is_shown_whole_with_its_lines() -> None:
    text = "| flour | 300 g |\n| water | 200 ml |\nKnead, then rest."
    assert find_excerpt(text, {"knead", "rest"}) == Excerpt(text, ["Knead", "rest"], offset=37)


def test_an_excerpt_without_a_match_is_the_beginning() -> None:
    excerpt = find_excerpt("first " + "word " * 100, {"dough"})
    assert excerpt.text.startswith("first word")
    assert excerpt.text.endswith("word…")
    assert (excerpt.matched, excerpt.offset) == ([], 0)


def test_the_excerpt_surrounds_the_match() -> None:
    content = "bread " * 100 + "then an albatross came by " + "bread " * 100
    result = find_excerpt(content, set(terms("albatrosses")))
    assert result.text.startswith("…bread")
    assert result.text.endswith("bread…")
    assert "bread then an albatross came by bread" in result.text
    assert 240 <= len(result.text) <= MIN_LENGTH
    assert result.matched == ["albatross"]


def test_the_excerpt_has_as_many_terms_as_possible_with_marks_at_gaps() -> None:
    content = "Rye is sown. " + "More words. " * 90 + "Wheat is milled. " + "More words. " * 90
    excerpt = find_excerpt(content, {"rye", "wheat"}).text
    assert excerpt.startswith("Rye is sown.")
    assert " … " in excerpt
    assert "Wheat is milled." in excerpt


def test_the_excerpt_of_a_log_has_whole_lines_around_the_match() -> None:
    lines = [f"2026-03-07T09:{number}:00Z INFO job {number}" for number in range(10, 60)]
    lines[20] = "2026-03-07T09:30:00Z ERROR disk full, job 20 of 7 stopped, all others wait for it"
    excerpt = find_excerpt("\n".join(lines), {"disk", "full"}).text
    assert 200 <= len(excerpt) <= MIN_LENGTH
    assert lines[19:22] == excerpt.strip("…").split("\n")[2:5]
    assert set(excerpt.strip("…").split("\n")) <= set(lines)


def test_the_excerpt_of_a_list_has_whole_records() -> None:
    records = [f"- Tool {number}\n  - shelf: {number}\n  - bought: 2019" for number in range(30)]
    records[9] = f"- Router\n  - shelf: C2\n  - note: lent to Mara {'until June ' * 8}for free"
    excerpt = find_excerpt("\n".join(records), {"mara"}).text
    assert records[9] in excerpt
    assert excerpt.strip("…").startswith("- Tool 8\n")


def test_passages_share_the_characters_of_an_answer() -> None:
    short, long = "A loaf.", "Some dough rises. " * 300
    excerpts = [excerpt.text for excerpt in share_excerpts([long, short, *[long] * 3], {"dough"})]
    assert excerpts[1] == short
    assert len(excerpts[0]) > TOTAL_LENGTH / 2
    assert all(len(excerpt) >= 240 for excerpt in excerpts[2:])
    assert sum(map(len, excerpts)) <= TOTAL_LENGTH


def test_matched_words_are_listed_once_as_first_spelled() -> None:
    result = find_excerpt("Ovens, an oven; OVEN. Doughs, dough\u2019s", set(terms("oven dough")))
    assert result.matched == ["Ovens", "Doughs"]


def test_an_excerpt_at_the_end_loses_no_letter() -> None:
    for length in range(SNIPPET_LENGTH - 20, SNIPPET_LENGTH + 20):
        content = "w " * 300 + "dough " + "x" * (length % 50) + " end"
        assert find_excerpt(content, {"dough"}).text.endswith(" end")


def test_snippets_and_excerpts_have_no_markdown_syntax() -> None:
    content = "# Dough\n\n- [ ] **Knead** the [dough](https://example.com/rye) well"
    assert make_snippet(content) == "Dough - Knead the dough well"
    result = find_excerpt(content, {"knead", "rye"})
    assert result == Excerpt("Dough\n- Knead the dough well", ["Knead", "rye"], offset=17)


def test_a_match_in_a_script_without_spaces_is_shown() -> None:
    result = find_excerpt(
        "パンを焼く。" * 100 + "錨を下ろす船" + "パンを焼く。" * 100, set(terms("錨を"))
    )
    assert "錨を下ろす船" in result.text
    assert len(result.text) <= MIN_LENGTH
    assert result.matched == ["錨を"]


def test_extremely_long_words_are_cut() -> None:
    result = find_excerpt("a" * 5_000, set(terms("a" * 5_000)))
    assert result.text.rstrip("…") == "a" * (len(result.text) - 1)
    assert result.matched == ["a" * (MAX_TERM - 1) + "…"]
    assert len(make_snippet("e" + "\u0301" * 5_000)) <= SNIPPET_LENGTH


@pytest.mark.parametrize(
    "content",
    ["whale " * 900, "whale ship " * 900, "鯨" * 3_000, "whale" * 1_000, "e\u0301" * 4_000],
)
def test_repetitions_take_linear_time(content: str) -> None:
    query_terms = set(terms("whale ship 鯨鯨 whalewhale"))
    half_of_content = content[: len(content) // 2]
    calls = count_calls(lambda: find_excerpt(content, query_terms))
    calls_for_half = count_calls(lambda: find_excerpt(half_of_content, query_terms))
    # Linear work makes twice as many calls, quadratic work four times as many.
    assert calls < 3 * calls_for_half
    assert len(find_excerpt(content, query_terms).text) <= MIN_LENGTH


@given(st.lists(st.sampled_from(PIECES), max_size=120).map("".join), st.sampled_from(PIECES))
def test_an_excerpt_has_whole_words_around_a_match(content: str, query: str) -> None:
    query_terms = set(terms(query))
    result = find_excerpt(content, query_terms)
    assert len(result.text) <= MIN_LENGTH
    line = " ".join(content.split())
    parts = [" ".join(part.split()) for part in result.text.split("…")]
    assert all(part in line for part in parts)
    assert all(set(terms(word)) & query_terms for word in result.matched)
    if result.matched:
        assert query_terms & set(terms(result.text))


@pytest.mark.parametrize("content", ["A **loaf**.\n\n" + "rye " * 90 + "*loaf* of dough", "dough"])
def test_an_excerpt_knows_where_its_match_is(content: str) -> None:
    offset = find_excerpt(content, {"loaf", "dough"}).offset
    assert content[offset:] in ("loaf* of dough", "dough")
