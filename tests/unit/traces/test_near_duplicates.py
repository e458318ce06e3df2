"""Copies and rewordings of a trace are near-duplicates; traces of similar problems are not.

A trace is a solved coding problem that users share: title, context and solution.
"""

from __future__ import annotations

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
    """Return the terms of a trace of the set."""
    return TraceTerms.of(trace["title"], trace["context_text"], trace["solution_text"])


def test_exact_copy_is_a_near_duplicate() -> None:
    assert is_near_duplicate(TRACE, TraceTerms.of(TITLE, CONTEXT, SOLUTION))


def test_white_space_case_and_code_fences_are_ignored() -> None:
    copy = TraceTerms.of(
        TITLE.upper(), CONTEXT.replace(" ", "\n  "), f"```\n{SOLUTION.replace(' ', '  ')}\n```"
    )

    assert is_near_duplicate(TRACE, copy)


def test_order_of_sentences_is_ignored() -> None:
    reordered_solution = ". ".join(reversed(SOLUTION.split(". ")))

    assert is_near_duplicate(TRACE, TraceTerms.of(TITLE, CONTEXT, reordered_solution))


def test_copy_with_typos_is_a_near_duplicate() -> None:
    copy = TraceTerms.of(
        TITLE.replace("Tests", "Test"),
        CONTEXT.replace("previous", "previuos"),
        SOLUTION.replace("normal", "nromal").replace("files", "fiels"),
    )

    assert is_near_duplicate(TRACE, copy)


def test_reworded_solution_is_a_near_duplicate() -> None:
    reworded_trace = TraceTerms.of(
        "pytest loads a stale package",
        "My edits had no effect: the package was imported from site-packages.",
        "Uninstalled it (`pip uninstall billing`) and made an editable install with"
        " `pip install -e .`, so that `billing.__file__` is src/billing/__init__.py. Needs no more"
        " than pip 24.2; `pip list --editable` shows it.",
    )

    assert is_near_duplicate(TRACE, reworded_trace)


def test_another_solution_is_not_a_near_duplicate() -> None:
    other_solution = (
        "Put the sources first: `pythonpath = ['src']` in the section tool.pytest.ini_options."
    )

    assert not is_near_duplicate(TRACE, TraceTerms.of(TITLE, CONTEXT, other_solution))


def test_another_problem_is_not_a_near_duplicate() -> None:
    other_trace = TraceTerms.of(
        "Console script not found",
        "The shell says billing: command not found, though pyproject.toml declares the script.",
        SOLUTION,
    )

    assert not is_near_duplicate(TRACE, other_trace)


def test_traces_with_a_common_log_are_not_near_duplicates() -> None:
    log = " ".join(f"pod-{number} OOMKilled restart {number}" for number in range(200))
    heap = TraceTerms.of("Pod killed", log, "Set -XX:MaxRAMPercentage=60, for the heap is not all.")
    leak = TraceTerms.of("Pod killed", log, "A map grew without bound; a cache of 10,000 ended it.")

    assert not is_near_duplicate(heap, leak)


def test_traces_with_two_common_names_are_not_near_duplicates() -> None:
    """Two names in common can be chance, such as a setting and its file."""
    nginx = TraceTerms.of(
        "413 on uploads", "413 Too Large", "Set client_max_body_size in nginx.conf."
    )
    ingress = TraceTerms.of(
        "413 on uploads",
        "413 Too Large",
        "Annotate the Ingress with proxy-body-size; do not edit nginx.conf by hand, since the"
        " controller writes client_max_body_size there.",
    )

    assert not is_near_duplicate(nginx, ingress)


@pytest.mark.parametrize("solution", ["", "...", "do it"])
def test_a_solution_without_terms_is_not_a_near_duplicate(solution: str) -> None:
    trace_without_terms = TraceTerms.of(TITLE, CONTEXT, solution)

    assert not is_near_duplicate(trace_without_terms, trace_without_terms)
    assert not is_near_duplicate(trace_without_terms, TRACE)


def test_a_problem_without_terms_is_not_a_near_duplicate() -> None:
    assert not is_near_duplicate(TraceTerms.of("?", "...", SOLUTION), TRACE)


def test_texts_without_spaces_are_compared() -> None:
    trace = TraceTerms.of(
        "文字化け", "エクセルで文字化けする", "先頭にバイト順マークを付けて保存する"
    )
    copy = TraceTerms.of(
        "文字化け", "エクセルで文字化けする。", "先頭にバイト順マークを付けて保存する。"
    )
    other_trace = TraceTerms.of(
        "文字化け", "エクセルで文字化けする", "データの取り込みで符号化方式を選ぶ"
    )

    assert is_near_duplicate(trace, copy)
    assert not is_near_duplicate(trace, other_trace)


def test_names_are_found_in_prose() -> None:
    trace = TraceTerms.of(
        "",
        "",
        "Pass --import-mode=importlib, call asyncio.to_thread or setCount, look at E0499 and PATH"
        " in /etc/app.toml; 3 of 10 did. A plain Word is none.",
    )

    assert trace.names == {
        "import-mode",
        "asyncio.to_thread",
        "setcount",
        "e0499",
        "path",
        "etc/app.toml",
    }


def test_resemblance_is_the_share_of_common_terms() -> None:
    assert compute_resemblance({"a", "b", "c"}, {"b", "c", "d"}) == 0.5
    assert compute_resemblance({"a"}, {"a"}) == 1.0
    assert compute_resemblance({"a"}, set()) == 0.0
    assert compute_resemblance(set(), set()) == 0.0


def test_no_confusable_trace_is_a_near_duplicate() -> None:
    data = read_trace_set()
    traces = {trace["id"]: find_trace_terms(trace) for trace in data["traces"]}

    duplicates = [
        sibling_trace["id"]
        for sibling_trace in data["siblings"]
        if is_near_duplicate(find_trace_terms(sibling_trace), traces[sibling_trace["near"]])
    ]

    assert duplicates == []


def test_all_copies_and_some_rewordings_are_found() -> None:
    data = read_trace_set()
    traces = {trace["id"]: find_trace_terms(trace) for trace in data["traces"]}
    results: dict[str, list[bool]] = {"edited": [], "reworded": []}
    for copy in data["duplicates"]:
        is_found = is_near_duplicate(find_trace_terms(copy), traces[copy["of"]])
        results[copy["kind"]].append(is_found)

    assert results["edited"]
    assert all(results["edited"])
    assert results["reworded"].count(True) >= 8


def test_the_comparison_of_two_traces_is_symmetric() -> None:
    data = read_trace_set()
    traces = {trace["id"]: find_trace_terms(trace) for trace in data["traces"]}
    pairs = [
        (find_trace_terms(trace), traces[trace["of"] if "of" in trace else trace["near"]])
        for trace in data["duplicates"] + data["siblings"]
    ]

    for copy, original in pairs:
        assert is_near_duplicate(original, copy) == is_near_duplicate(copy, original)
