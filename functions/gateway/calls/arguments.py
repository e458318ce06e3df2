"""Checks a call's arguments for values that cannot be sent to a tool.

Python's JSON parsers accept NaN, read `1e999` as infinity, and accept lists nested as deep as the
stack allows. An infinite number would reach the tool's function as null, which stands for a missing
argument.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from shared.runtime.invocation import MAX_REPORTED_PROBLEMS, format_field_path, make_argument_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.core.errors import InvalidInput

MAX_DEPTH: Final = 32
"""The maximum depth of nested lists and objects. No tool's input needs more than three levels."""
_NOT_FINITE_PROBLEM: Final = "not a finite number"
_TOO_DEEP_PROBLEM: Final = f"lists and objects nested more than {MAX_DEPTH} levels deep"


def check_arguments(tool: str, arguments: dict[str, Any]) -> InvalidInput | None:
    """Return the error if arguments cannot be sent to a tool, otherwise None."""
    problems: dict[str, str] = {}
    for name, problem in _find_problems(arguments):
        problems[name] = problem
        if len(problems) == MAX_REPORTED_PROBLEMS:
            break
    return make_argument_error(tool, problems) if problems else None


def _find_problems(arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the path and the problem of each value that cannot be sent.

    The levels are a list, because recursion could overflow the stack with deeply nested values.
    """
    path: list[int | str] = []
    levels = [_iterate_items(arguments)]
    while levels:
        key, value = next(levels[-1], (None, None))
        if key is None:  # the level has no more items
            levels.pop()
            del path[-1:]  # a slice, because the path of the arguments themselves is empty
        elif isinstance(value, float) and not math.isfinite(value):
            yield format_field_path([*path, key]), _NOT_FINITE_PROBLEM
        elif isinstance(value, dict | list):
            if len(levels) > MAX_DEPTH:
                # Only the argument is named, because the whole path would be too long to read.
                yield format_field_path([*path, key][:1]), _TOO_DEEP_PROBLEM
            else:
                path.append(key)
                levels.append(_iterate_items(value))


def _iterate_items(container: dict[str, Any] | list[Any]) -> Iterator[tuple[int | str, Any]]:
    return iter(container.items() if isinstance(container, dict) else enumerate(container))
