"""YAML front matter: the metadata at the beginning of a text file."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

_FRONT_MATTER: Final = re.compile(
    r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE
)


class MalformedFrontMatter(ValueError):
    """The block is not valid YAML; the message names the line in the file."""


def match_front_matter(text: str) -> re.Match[str] | None:
    """Match a block at the beginning of a text that looks like front matter; group 1 is YAML."""
    return _FRONT_MATTER.match(text)


def parse_front_matter(block: str) -> Any:
    """Parse the YAML of a block to strings, lists and dictionaries; an empty one to {}.

    Raises:
        MalformedFrontMatter: It is not valid YAML.
    """
    try:
        # Plain strings: SafeLoader makes 750 of the title `12:30`, and False of the tag `no`.
        return yaml.load(block, yaml.BaseLoader) or {}  # noqa: S506  builds str, list, dict only
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise _make_malformed_error(line, error.problem) from error
    except yaml.reader.ReaderError as error:
        raise _make_malformed_error(block.count("\n", 0, error.position), error.reason) from error
    except (ValueError, OverflowError) as error:
        raise _make_malformed_error(0, str(error)) from error
    except RecursionError as error:
        raise _make_malformed_error(0, "nested too deeply") from error


def lines_of_keys(block: str) -> dict[str, int]:
    """Return the line number in the file of each key, in lower case, of a valid block."""
    mapping: Any = yaml.compose(block, yaml.BaseLoader)
    return {key.value.lower(): key.start_mark.line + 2 for key, _ in mapping.value}


def _make_malformed_error(line: int, problem: str | None) -> MalformedFrontMatter:
    """Make the error, with the line in the file (from 1) for the line in the block (from 0)."""
    return MalformedFrontMatter(f"has malformed front matter at line {line + 2}: {problem}")
