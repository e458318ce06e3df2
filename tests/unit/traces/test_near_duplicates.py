"""Copies and rewordings of a trace are near-duplicates; traces of similar problems are not.

A trace is a solved coding problem that users share: title, context and solution.
"""

from collections import defaultdict
from typing import Any

import pytest

from shared.text.terms import compute_resemblance
from shared.traces.near_duplicates import TraceTerms, is_near_duplicate
from tests.support.trace_set import read_trace_set

TITLE = "Tests import an installed copy of the package"
CONTEXT = (
    "I changed a function, but pytest still runs the previous behaviour: the module comes from"
    " site-packages, where an earlier installation had put a copy of the package."
)
SOLUTION = (
    "A normal install copies the files. Install it in editable mode: `pip uninstall -y billing`,"
    " then `pip install -e .`. Now `billing.__file__` points to src/billing/__init__.py; pip 24.2"
    " says so in `pip list --editable`, too."
)
TRACE = TraceTerms.of(TITLE, CONTEXT, SOLUTION)


def find_trace_terms(trace: dict[str, Any]) -> TraceTerms:
    return TraceTerms.of(trace["title"], trace["context_text"], trace["solution_text"])


@pytest.mark.parametrize(
    "copy",
    [
        (TITLE, CONTEXT, SOLUTION),
        (TITLE.upper(), CONTEXT.replace(" ", "\n  "), f"```\n{SOLUTION.replace(' ', '  ')}\n```"),
        (TITLE, CONTEXT, ". ".join(reversed(SOLUTION.split(". ")))),
        (
            TITLE.replace("Tests", "Test"),
            CONTEXT.replace("previous", "previuos"),
            SOLUTION.replace("normal", "nromal").replace("files", "fiels"),
        ),
        (
            "pytest loads a stale package",
            "My edits had no effect: the package was imported from site-packages.",
            (
                "Uninstalled it (`pip uninstall billing`) and made an editable install with"
                " `pip install -e .`, so that `billing.__file__` is src/billing/__init__.py. Needs"
                " no more than pip 24.2; `pip list --editable` shows it."
            ),
        ),
    ],
    ids=["exact", "other spaces and case", "reordered", "with typos", "reworded"],
)
def test_a_copy_is_a_near_duplicate(copy: tuple[str, str, str]) -> None:
    assert is_near_duplicate(TRACE, TraceTerms.of(*copy))


LOG = " ".join(f"pod-{number} OOMKilled restart {number}" for number in range(200))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            (TITLE, CONTEXT, SOLUTION),
            (TITLE, CONTEXT, "Put the sources first: `pythonpath = ['src']` in tool.pytest."),
        ),
        (
            (TITLE, CONTEXT, SOLUTION),
            ("Console script not found", "The shell says billing: command not found.", SOLUTION),
        ),
        (
            ("Pod killed", LOG, "Set -XX:MaxRAMPercentage=60, for the heap is not all."),
            ("Pod killed", LOG, "A map grew without bound; a cache of 10,000 ended it."),
        ),
        # Two names in common can be chance, such as a setting and its file.
        (
            ("413 on uploads", "413 Too Large", "Set client_max_body_size in nginx.conf."),
            (
                "413 on uploads",
                "413 Too Large",
                (
                    "Annotate the Ingress with proxy-body-size; do not edit nginx.conf by hand,"
                    " since the controller writes client_max_body_size there."
                ),
            ),
        ),
        ((TITLE, CONTEXT, SOLUTION), ("?", "...", SOLUTION)),
    ],
    ids=["solution", "problem", "common log", "two common names", "no terms"],
)
def test_another_problem_or_solution_is_no_near_duplicate(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert not is_near_duplicate(TraceTerms.of(*one), TraceTerms.of(*other))
    assert not is_near_duplicate(TraceTerms.of(*other), TraceTerms.of(*one))


@pytest.mark.parametrize("solution", ["", "...", "do it"])
def test_a_solution_without_terms_is_not_a_near_duplicate(solution: str) -> None:
    trace_without_terms = TraceTerms.of(TITLE, CONTEXT, solution)

    assert not is_near_duplicate(trace_without_terms, trace_without_terms)
    assert not is_near_duplicate(trace_without_terms, TRACE)


def test_texts_without_spaces_are_compared() -> None:
    problem = ("文字化け", "エクセルで文字化けする")
    trace = TraceTerms.of(*problem, "先頭にバイト順マークを付けて保存する")
    assert is_near_duplicate(
        trace, TraceTerms.of(*problem, "先頭にバイト順マークを付けて保存する。")
    )
    assert not is_near_duplicate(
        trace, TraceTerms.of(*problem, "データの取り込みで符号化方式を選ぶ")
    )


def test_names_are_found_in_prose() -> None:
    solution = (
        "Pass --import-mode=importlib, call asyncio.to_thread or setCount, look at E0499 and PATH"
        " in /etc/app.toml; 3 of 10 did. A plain Word is none."
    )
    names = {"import-mode", "asyncio.to_thread", "setcount", "e0499", "path", "etc/app.toml"}
    assert TraceTerms.of("", "", solution).names == names


def test_resemblance_is_the_share_of_common_terms() -> None:
    assert compute_resemblance({"a", "b", "c"}, {"b", "c", "d"}) == 0.5
    assert compute_resemblance({"a"}, {"a"}) == 1.0
    assert compute_resemblance({"a"}, set()) == 0.0
    assert compute_resemblance(set(), set()) == 0.0


def test_copies_of_the_set_are_found_and_confusable_traces_are_not() -> None:
    data = read_trace_set()
    traces = {trace["id"]: find_trace_terms(trace) for trace in data["traces"]}
    results: dict[str, list[bool]] = defaultdict(list)
    for other in data["duplicates"] + data["siblings"]:
        terms = find_trace_terms(other)
        original = traces[other["of"] if "of" in other else other["near"]]
        is_found = is_near_duplicate(terms, original)
        assert is_near_duplicate(original, terms) == is_found
        results[other["kind"] if "of" in other else "sibling"].append(is_found)

    assert results["edited"]
    assert all(results["edited"])
    assert results["reworded"].count(True) >= 8
    assert results["sibling"]
    assert not any(results["sibling"])
