"""Links, paths, commands and settings that the documents name exist."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

import click
import pytest

from infra.build.discovery import ROOT
from infra.cli.main import main
from shared.core.settings import Settings

ItemT = TypeVar("ItemT")

DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", ".github/**/*.md", "infra/local/sample/*.md")
    for path in ROOT.glob(pattern)
)
FOLDERS = "functions|shared|infra|tests|benchmarks|docs"


@cache
def read(path: Path) -> str:
    return path.read_text("utf-8")


def find_all(find: Callable[[Path], Iterable[ItemT]]) -> list[tuple[Path, ItemT]]:
    """Return what is found in all documents, which must be something, and where."""
    items = [(path, item) for path in DOCUMENTS for item in find(path)]
    assert items
    return items


def find_blocks(path: Path, language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", read(path), re.DOTALL | re.MULTILINE)


def read_prose(path: Path) -> str:
    """Return a document without its code blocks."""
    return re.sub(r"^```.*?^```", "", read(path), flags=re.DOTALL | re.MULTILINE)


def find_code_spans(path: Path) -> list[str]:
    """Return the texts in backticks, outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", read_prose(path))


def find_commands(path: Path, program: str) -> list[str]:
    """Return the command lines of a program, in blocks and in sentences."""
    lines = [line.strip() for block in find_blocks(path, "sh") for line in block.splitlines()]
    return [line for line in [*lines, *find_code_spans(path)] if line.split()[:1] == [program]]


def find_anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", read_prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def find_links(path: Path) -> list[str]:
    """Return the links of a document, without addresses."""
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]+`", "", read_prose(path)))
    return [link for link in links if not link.startswith(("https://", "http://", "mailto:"))]


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    for path, link in find_all(find_links):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), (path, link)
        assert not anchor or anchor in find_anchors(target), (path, link)


def test_every_table_is_one_block_with_a_header() -> None:
    """A blank line ends a table, and the rows after it would be shown as text."""
    tables = find_all(lambda path: re.findall(r"(?:^\|.*\n)+", read_prose(path), re.MULTILINE))
    header = r"\|.*\n\|(?: ?:?-+:? ?\|)+\n"
    assert [(path, block) for path, block in tables if not re.match(header, block)] == []


def test_every_path_exists() -> None:
    spans = [
        (path, span)
        for path, span in find_all(find_code_spans)
        if re.fullmatch(rf"({FOLDERS})/[\w./-]+", span)
    ]
    assert spans
    assert [(path, span) for path, span in spans if not (ROOT / span).exists()] == []


def test_every_module_that_a_command_runs_exists() -> None:
    pattern = rf"python -m ((?:{FOLDERS})\.[\w.]+)"
    for path, module in find_all(lambda path: re.findall(pattern, read(path))):
        program = ROOT / module.replace(".", "/")
        is_program = program.with_suffix(".py").exists() or (program / "__main__.py").exists()
        assert is_program, (path, module)


def test_every_make_target_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for path, command in find_all(lambda path: find_commands(path, "make")):
        names = [word for word in shlex.split(command)[1:] if "=" not in word and word != "..."]
        assert set(names) <= set(targets), (path, command)


@pytest.mark.parametrize("program", ["carrel", ".venv/bin/carrel"])
def test_every_carrel_command_exists_with_its_options(program: str) -> None:
    for _, line in find_all(lambda path: find_commands(path, program)):
        assert_command_exists(line)


def assert_command_exists(line: str) -> None:
    """Follow a command line through the groups of the program, and check its options."""
    command: click.Command = main
    for word in shlex.split(line)[1:]:
        if word.startswith("--"):
            parameters = command.get_params(click.Context(command))  # with --help
            options = {name for option in parameters for name in option.opts}
            options |= {name for option in parameters for name in option.secondary_opts}
            assert word.partition("=")[0] in options, line
        elif isinstance(command, click.Group) and "|" not in word:
            subcommand = command.get_command(click.Context(command), word)
            assert subcommand, line
            command = subcommand


def test_every_shell_block_parses() -> None:
    for _, block in find_all(lambda path: find_blocks(path, "sh")):
        subprocess.run(["sh", "-n"], input=block, text=True, check=True)


def test_every_json_block_parses() -> None:
    for _, block in find_all(lambda path: find_blocks(path, "json")):
        json.loads(block)


def test_every_name_in_capitals_exists() -> None:
    """The names are settings, other variables, constants and error codes."""
    describe_the_past_or_other_stacks = {"CHANGELOG.md", "requirements.md"}
    unknown = [
        (path, span)
        for path, span in find_all(find_code_spans)
        if path.name not in describe_the_past_or_other_stacks
        and (match := re.match(r"([A-Z]+(?:_[A-Z]+)+)(=|$)", span))
        and match.group(1) not in find_names_in_capitals()
    ]
    assert unknown == []


@cache
def find_names_in_capitals() -> set[str]:
    """Return the settings as environment variables, and what the code writes in capitals."""
    files = [ROOT / "Makefile", *(ROOT / "infra" / "terraform").glob("*.tf")]
    for folder in FOLDERS.split("|"):
        files += (ROOT / folder).rglob("*.py")
    names = {name.upper() for name in Settings.model_fields}
    return names.union(*(re.findall(r"[A-Z]+(?:_[A-Z]+)+", read(path)) for path in files))


def test_the_readme_has_at_most_700_words() -> None:
    assert len(read(ROOT / "README.md").split()) <= 700


def test_the_readme_links_to_every_document() -> None:
    documents = [f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")]
    assert [name for name in documents if f"]({name})" not in read(ROOT / "README.md")] == []
