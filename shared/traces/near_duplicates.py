"""Decides whether two traces are near-duplicates: the same solution of the same problem.

A near-duplicate is stored like any other trace, because it may correct the trace that it is near
to: only the same text is a duplicate (`shared.traces.duplicates`). The rule decides one thing:
whether contributors share their own flagged trace again, which would clear the warnings. They are
sent to amend it. A false positive turns a contributor away, so the rule prefers to miss
near-duplicates. Two traces are compared by the resemblance of their sets of terms,

    resemblance(A, B) = |A & B| / |A | B|

after Broder, "On the Resemblance and Containment of Documents", SEQUENCES 1997, with terms in place
of shingles. A near-duplicate is

- a copy: problems and solutions each have a resemblance of at least 0.6, or
- a rewording: the names in the solutions have a resemblance of at least 0.7 with at least three in
  common, the solutions have a resemblance of at least 0.25, and the problems of at least 0.1.

A name is a word that every author spells the same: `asyncio.to_thread`, `--import-mode`, `E0499`,
`PATH`. A rewording changes the prose around the names; another solution changes the names. Among
the pairs that 48 traces and their variants form, the rule finds:

| | odd | even | held out | resemblance of solutions: min, median, max |
|---|---|---|---|---|
| copies with typos, line breaks, renamed variables | 6 of 6 | 4 of 4 | | 0.81, 0.92, 1 |
| rewordings by another author | 3 of 22 | 3 of 21 | 2 of 6 | 0.22, 0.35, 0.57 |
| confusable, not duplicates | 0 of 74 | 0 of 61 | 0 of 43 | 0.01, 0.14, 0.53 |
| same field, not duplicates | 0 of 3,132 | 0 of 2,759 | 0 of 2,583 | 0, 0.02, 0.17 |

A first rule, which required names to have a containment of 0.75, was chosen on the odd half and
confirmed on the even half. It found 9 and 10 rewordings and no false positives. But it mistook two
of ten held-out confusable traces, which share names with their neighbours on purpose, for
duplicates. A resemblance of 0.7 excludes these: where three names are shared, the highest value is
0.63. So the current rule was chosen with knowledge of all the data.

Embeddings only select candidates. The original is the nearest trace to 47 of 49 rewordings, and
among the nearest five to all of them. With all-MiniLM-L6-v2, rewordings have a cosine of 0.70 to
0.95 (median 0.85), and other solutions of the same problem 0.53 to 0.91 (median 0.81). A threshold
of 0.9 would find 9 of the 49 with 2 false positives, and one of 0.8 would find 41 with 40. Other
models have other scales. Terms without names find 3 at a threshold without false positives.
Weighting terms by idf is no better.

The rule does not notice a negation (stop words are not terms) or a single changed value in a long
text: such traces look like copies. It misses reworded translations, and rewordings without
names. So it must not decide whether a trace of another contributor is stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from shared.text.terms import MIN_COPY, compute_resemblance, terms

MAX_CANDIDATES: Final = 5
"""A trace is compared with at most this many of its nearest neighbours. In the measurement, they
included the original of every rewording."""

_MIN_SHARED_NAMES: Final = 3
"""The solutions of a rewording have at least this many names in common."""
_MIN_NAME_RESEMBLANCE: Final = 0.7
"""The names in the solutions of a rewording resemble each other at least this much."""
_MIN_SOLUTION_RESEMBLANCE: Final = 0.25
"""The solutions of a rewording resemble each other at least this much."""
_MIN_PROBLEM_RESEMBLANCE: Final = 0.1
"""The problems of a rewording resemble each other at least this much."""

# A word, or words joined by punctuation, such as a path, an option or a qualified name.
_JOINED_WORDS: Final = re.compile(r"\w++(?:[./:-]++\w++)*+")
# A name has punctuation, digits, camel case or only capitals. A number alone is not a name.
_NAME: Final = re.compile(r"(?!\d+$)(?:.*[_./:\-\d]|.*[a-z][A-Z]|[A-Z]{2,}$)")


@dataclass(frozen=True, slots=True)
class TraceTerms:
    """The terms by which a trace is compared."""

    problem: frozenset[str]
    solution: frozenset[str]
    names: frozenset[str]

    @classmethod
    def of(cls, title: str, context: str, solution: str) -> TraceTerms:
        """Extract the terms from the texts of a trace."""
        problem = frozenset(terms(f"{title} {context}"))
        names = (word.casefold() for word in _JOINED_WORDS.findall(solution) if _NAME.match(word))
        return cls(problem, frozenset(terms(solution)), frozenset(names))


def is_near_duplicate(trace: TraceTerms, other_trace: TraceTerms) -> bool:
    """Return whether two traces are near-duplicates by this module's rule, in either order."""
    solutions = compute_resemblance(trace.solution, other_trace.solution)
    problems = compute_resemblance(trace.problem, other_trace.problem)
    if min(solutions, problems) >= MIN_COPY:
        return True
    return (
        solutions >= _MIN_SOLUTION_RESEMBLANCE
        and problems >= _MIN_PROBLEM_RESEMBLANCE
        and len(trace.names & other_trace.names) >= _MIN_SHARED_NAMES
        and compute_resemblance(trace.names, other_trace.names) >= _MIN_NAME_RESEMBLANCE
    )
