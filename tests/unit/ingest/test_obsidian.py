"""Notes of an Obsidian vault are read without its special markup, and with the links between them.

A vault is a folder of Markdown notes with a folder `.obsidian`.
"""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.jobs.ingest.listing import list_files
from functions.jobs.ingest.readers.links import MAX_LINKS
from functions.jobs.ingest.readers.markdown import read_markdown
from tests.support.source_files import read_only_source, read_sources, read_warnings, write_file

MARKUP = st.text(alphabet="ab \n[]|#^%!<->`():", max_size=120)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """An empty vault."""
    write_file(tmp_path, "Vault/.obsidian/app.json", "{}")
    return tmp_path / "Vault"


def read_links(folder: Path) -> dict[str, list[str]]:
    """Return the titles that each source of a folder links to, by its title."""
    sources = read_sources(folder)
    titles = {source.source_id: source.title for source in sources}
    return {
        source.title: [titles.get(name, "?") for name in source.links_to]
        for source in sources
        if source.links_to
    }


# Markup


@pytest.mark.parametrize(
    ("text", "clean_text"),
    [
        ("See [[Note]] and [[a/Note#Part|words]].", "See Note and words."),
        ("[[a/Note.md]], [[Note#A#B]], [[#Part]]", "Note, Note > A > B, Part"),
        ("[[Note#^37066d]] is a block.", "Note is a block."),
        ("See [[#^elbow]], [[#^37066d]].", "See elbow, ."),
        ("| [[Note\\|words]] | b |", "| words | b |"),
        ("A ![[picture.png|300]] in a line.", "A in a line."),
        ("Above.\n\n![[Note]]\n\nBelow.", "Above.\n\n\nBelow."),
        ("- first ^a1\n- second ^b-2\n\n^table-id\nEnd.", "- first\n- second\n\nEnd."),
        ("2^8 and x ^2 here", "2^8 and x ^2 here"),
        ("A %%hidden%% word.\n%%\nlines\nof it\n%%\nEnd.", "A word.\nEnd."),
        ("100 %% of <!-- gone -->all", "100 %% of all"),
        ("<!-- two\nlines -->\nText <!-- open", "Text <!-- open"),
        ("`[[a]]` and\n```\n[[b]] %%c%% ^d\n<!-- e -->\n```", None),
        ("Words:\n\n    [[code]] ^x\n\nA --> B", None),
        ("- a\n\n    - [[b]] ^x\n", "- a\n\n    - b"),
        ("- ```py\n  [[a]]\n  ```\n- [[b]]", "- ```py\n  [[a]]\n  ```\n- b"),
        (
            "[Words][A  b] ![x][p]\n\n[a b]: https://e.org/x 'T'\n[p]: <a b.png>\nEnd.",
            "[Words](https://e.org/x) ![x](<a b.png>)\n\nEnd.",
        ),
        (
            "[one], [Two][] and [[two]].\n[one]: #a_(b)\n[two]: ./c",
            "[one](<#a_(b)>), [Two](./c) and two.",
        ),
        ("[no][label] [x] t[i][j] [Ann]: so.\n[Ann]: so.\n`[a]`\n```\n[a]: /b\n```", None),
        ("[a]\n\n```\n[a]: /code\n```\n[a]: /b", "[a](/b)\n\n```\n[a]: /code\n```"),
        ("A\n\n```dataview\nTABLE x FROM #b\n```\n~~~query\n^a\n~~~\nEnd.", "A\n\nEnd."),
        ("```sh\ndataview:: x\n```", None),
        (
            "Rating:: 5, (**a**:: b) and std::vector, a :: b",
            "Rating: 5, (**a**: b) and std::vector, a :: b",
        ),
        ("<u>one</u>[^1] &nbsp; <br>\n\n[^1]: Note.", None),
        ("- [ ] **task** [site](https://example.com) #tag\n> [!tip] Title", None),
    ],
)
def test_syntax_of_the_obsidian_editor_is_removed(
    vault: Path, text: str, clean_text: str | None
) -> None:
    """A text with `None` stays as it is."""
    write_file(vault, "note.md", text)
    assert read_only_source(vault).text == (clean_text or text)


def test_a_tag_in_a_comment_is_not_a_tag(vault: Path) -> None:
    write_file(vault, "note.md", "#real <!-- #hidden --> [[#Part]]")
    source = read_only_source(vault)
    assert (source.tags, "hidden" in source.text) == (("real",), False)


def test_outside_a_vault_only_links_and_html_comments_are_removed() -> None:
    text = "[[Note|words]] x[[1]] [[ -f x ]] %%a%% ^b\n![[c]]\n<!-- d -->End:: it ^e"
    markdown = read_markdown(text, in_vault=False)
    assert markdown.text == "words x[[1]] [[ -f x ]] %%a%% ^b\nEnd:: it ^e"


def test_plain_text_in_a_vault_is_unchanged(vault: Path) -> None:
    write_file(vault, "note.txt", "[[Note]] %%a%% <!-- b --> ^c")
    assert read_only_source(vault).text == "[[Note]] %%a%% <!-- b --> ^c"


def test_a_note_of_comments_alone_is_a_source_without_sections(vault: Path) -> None:
    write_file(vault, "note.md", "%% later %%\n![[picture.png]]\n")
    assert read_warnings(vault) == [("note.md", "has no text; nothing of it is stored")]
    assert read_only_source(vault).sections == ()


def test_front_matter_of_the_web_clipper_is_read(vault: Path) -> None:
    content = (
        '---\ntitle: "On dough"\nsource: "https://example.com/dough"\n'
        'author:\n  - "[[Ann Baker]]"\n  - "[[Bob|Bob Miller]]"\npublished: 2024-05-01\n'
        'created: 2024-05-31\ndescription: ""\ntags:\n  - "clippings"\n---\nWords. #rye\n'
    )
    write_file(vault, "Clippings/On dough.md", content)
    write_file(vault, "Ann Baker.md", "A baker.")
    _, clipping = read_sources(vault)
    assert clipping.author == "Ann Baker, Bob Miller"
    assert clipping.source_url == "https://example.com/dough"
    assert clipping.tags == ("clippings", "rye")
    assert f"{clipping.sections[0].written_at:%Y-%m-%d}" == "2024-05-31"
    assert read_links(vault) == {"On dough": ["Ann Baker"]}
    assert read_warnings(vault) == []


def test_the_fields_tag_and_modified_are_read(vault: Path) -> None:
    write_file(vault, "note.md", "---\ntag: rye\nmodified: 2024-05-31\n---\nWords.")
    source = read_only_source(vault)
    assert source.tags == ("rye",)
    assert f"{source.sections[0].written_at:%Y-%m-%d}" == "2024-05-31"


@given(MARKUP)
def test_random_markup_is_accepted_and_code_is_unchanged(text: str) -> None:
    code = "```\n[[a]] %%b%% ^c\n```"
    for in_vault in (True, False):
        assert read_markdown(code, in_vault=in_vault).text == code
        # A heading in a link becomes " > ", and a reference link gets its address.
        max_length = 2 * len(text) + 2 * text.count("#") + 4 * text.count("[")
        assert len(read_markdown(text, in_vault=in_vault).text) <= max_length


def test_a_long_address_is_not_repeated_for_every_link() -> None:
    text = f"{'[a] ' * 1_000}\n[a]: /{'b' * 5_000}"
    assert len(read_markdown(text, in_vault=False).text) < 2 * len(text)


# Links


@pytest.mark.parametrize(
    ("link", "title"),
    [
        ("[[Rye]]", "Rye"),
        ("[[rye#Flour|the flour]]", "Rye"),
        ("[[Bread/Rye.md]]", "Rye"),
        ("[[bread/rye]]", "Rye"),
        ("![[Rye]]", "Rye"),
        ("[[Secale cereale]]", "Rye"),
        ("[[ROGGEN]]", "Rye"),
        ("[[./Rye]]", "Rye"),
        ("[[../Café]]", "Café"),
        ("[[Cafe\u0301]]", "Café"),
        ("[[Index]]", "Top"),
        ("[[Bread/Index]]", "Near"),
        ("[[Far/Index]]", "Far"),
        ("[[/Index]]", "Top"),
        ("[x](Rye.md)", "Rye"),
        ("[x](Rye.md#flour)", "Rye"),
        ("[x](<../Far/Deep note.md>)", "Deep"),
        ("[x](../Far/Deep%20note.md)", "Deep"),
        ("[x](Deep%20note)", "Deep"),
        ("[x][r]\n\n[r]: Rye.md", "Rye"),
        ("[[list.txt]]", "list"),
    ],
)
def test_a_link_in_a_vault_leads_to_its_note(vault: Path, link: str, title: str) -> None:
    aliases = "---\nnote: not: YAML\naliases: [Secale cereale, Roggen]\n---\nGrain."
    write_file(vault, "Bread/Rye.md", aliases)
    write_file(vault, "Café.md", "Coffee.")
    write_file(vault, "Bread/Index.md", "# Near")
    write_file(vault, "Far/Index.md", "# Far")
    write_file(vault, "Index.md", "# Top")
    write_file(vault, "Far/Deep note.md", "# Deep")
    write_file(vault, "list.txt", "Words.")
    write_file(vault, "Bread/Note.md", f"See {link}\n.")
    assert read_links(vault) == {"Note": [title]}


@pytest.mark.parametrize(
    "link",
    [
        "[[Nowhere]]",
        "[[#Part]]",
        "[[Note]]",
        "[[../../outside]]",
        "[x](https://example.com/Rye.md)",
        "[x](mailto:a@example.com)",
        "[x](#part)",
        "[x](/etc/passwd.md)",
        "[x](%00.md)",
        "[x](docs.jsonl)",
        "![[picture.png]] ![x](picture.png)",
        "`[[Rye]]`",
        "%%[[Rye]]%%",
    ],
)
def test_links_that_lead_to_no_note_are_ignored(vault: Path, link: str) -> None:
    write_file(vault, "Rye.md", "Grain.")
    write_file(vault, "picture.png", b"\x89PNG")
    write_file(vault, "docs.jsonl", "")
    write_file(vault, "Note.md", f"See {link}.")
    assert read_links(vault) == {}


def test_a_name_means_the_note_in_the_same_folder_or_with_the_shortest_path(vault: Path) -> None:
    write_file(vault, "a/b/Rye.md", "# Deep")
    write_file(vault, "a/b/Sister.md", "[[Rye]]")
    write_file(vault, "z/Rye.md", "# Shallow")
    write_file(vault, "Note.md", "[[Rye]]")
    write_file(vault, "c/Note.md", "# Other\n[[Rye]] [[b/Rye]]")
    expected = {"Note": ["Shallow"], "Other": ["Shallow", "Deep"], "Sister": ["Deep"]}
    assert read_links(vault) == expected


def test_outside_a_vault_only_links_by_path_are_followed(tmp_path: Path) -> None:
    note = "[x](../b/Rye.md) [y](Later.md) [[Rye]] [[Later]] [[Barley.md]]"
    write_file(tmp_path, "notes/a/Note.md", note)
    write_file(tmp_path, "notes/a/Barley.md", "Malt.")
    write_file(tmp_path, "notes/b/Rye.md", "Grain.")
    assert read_links(tmp_path / "notes") == {"Note": ["Rye", "?"]}
    write_file(tmp_path, "notes/a/Later.md", "Words.")
    assert read_links(tmp_path / "notes") == {"Note": ["Rye", "Later"]}


def test_a_note_that_is_read_alone_has_the_same_links(vault: Path) -> None:
    write_file(vault, "a/Rye.md", "Grain.")
    file = write_file(vault, "Note.md", "[[Rye]]")
    _, source = sorted(read_sources(vault), key=lambda source: source.links_to or ())
    assert read_only_source(file).links_to == source.links_to


def test_a_vault_inside_the_folder_is_recognized(tmp_path: Path) -> None:
    write_file(tmp_path, "all/Vault/.obsidian/app.json", "{}")
    write_file(tmp_path, "all/Vault/a/Rye.md", "Grain.")
    write_file(tmp_path, "all/Vault/Note.md", "[[Rye]]")
    write_file(tmp_path, "all/Other.md", "[[Rye]]")
    assert read_links(tmp_path / "all") == {"Note": ["Rye"]}


def test_links_beyond_the_limit_are_cut_with_a_warning(tmp_path: Path) -> None:
    text = " ".join(f"[x]({number}.md)" for number in range(MAX_LINKS + 1))
    path = write_file(tmp_path, "note.md", text)
    assert len(read_only_source(path).links_to or ()) == MAX_LINKS
    assert read_warnings(path) == [("note.md", "links to 501 files; the first 500 links are kept")]


def test_exponential_yaml_aliases_are_ignored(vault: Path) -> None:
    """Each name refers nine times to the one before it, so the last one is 9**8 values."""
    names = "abcdefghi"
    levels = [f"{name}: &{name} [{f'*{below}, ' * 9}]" for below, name in pairwise(names)]
    front_matter = "\n".join(["a: &a [x]", *levels, "aliases: [*i, Rye]"])
    write_file(vault, "Grain.md", f"---\n{front_matter}\n---\nWords.")
    write_file(vault, "Note.md", "[[Rye]]")
    assert read_links(vault) == {"Note": ["Grain"]}


# Skipped files


@pytest.mark.parametrize(
    ("settings", "template"),
    [
        (None, "Templates/daily.md"),
        ("{}", "Templates/daily.md"),
        ("not JSON", "Templates/daily.md"),
        (json.dumps({"folder": "Extras/Forms/"}), "Extras/Forms/daily.md"),
    ],
)
def test_templates_and_hidden_folders_are_left_out(
    vault: Path, settings: str | None, template: str
) -> None:
    for name in (template, ".trash/old.md", ".obsidian/plugin.md", "Notes/Templates.md"):
        write_file(vault, name, "Words.")
    if settings is not None:
        write_file(vault, ".obsidian/templates.json", settings)
    listing = list_files(vault)
    assert list(listing.files) == ["Notes/Templates.md"]
    assert listing.not_read == "1 in the templates folder"


def test_drawings_are_left_out(vault: Path) -> None:
    for name in ("Plan.excalidraw.md", "Plan.md"):
        write_file(vault, name, "==Switch to EXCALIDRAW VIEW== # Text Elements")
    listing = list_files(vault)
    assert (list(listing.files), listing.not_read) == (["Plan.md"], "1 .excalidraw.md")


def test_a_templates_folder_outside_a_vault_is_read(tmp_path: Path) -> None:
    write_file(tmp_path, "Templates/daily.md", "Words.")
    assert list(list_files(tmp_path).files) == ["Templates/daily.md"]
