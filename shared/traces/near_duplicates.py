"""Near-duplicates: whether a trace tells what another one tells already.

The same problem with another solution is none, and neither is the same solution of another problem:
taking it for one loses somebody's work, so a doubt counts against it. Two traces are compared by

    resemblance(A, B) = |A & B| / |A | B|

of the sets of what they hold: Broder, "On the Resemblance and Containment of Documents", SEQUENCES
1997, who takes shingles where we take terms. A near-duplicate is

- a copy: problems and solutions have a resemblance of at least 0.6 each, or
- told anew: the names in the solutions have one of at least 0.7 and three in common, the solutions
  one of 0.25 and the problems one of 0.1.

A name is what somebody else would spell the same: `asyncio.to_thread`, `--import-mode`, `E0499`,
`PATH`. Who tells a solution anew changes the prose around them; who has another solution, or writes
after the pattern of another text, changes them. Called near-duplicates, of pairs around 48 traces:

| | odd | even | held out | the solutions' resemblance: least, median, most |
|---|---|---|---|---|
| edited: typos, line breaks, renamed variables | 6 of 6 | 4 of 4 | | 0.81, 0.92, 1 |
| told anew by another author | 3 of 22 | 3 of 21 | 2 of 6 | 0.22, 0.35, 0.57 |
| confusable, and none | 0 of 74 | 0 of 61 | 0 of 43 | 0.01, 0.14, 0.53 |
| of the same field | 0 of 3,132 | 0 of 2,759 | 0 of 2,583 | 0, 0.02, 0.17 |

A first rule was chosen on the odd half and confirmed on the even one: containment of the names, at
0.75, found 9 and 10 of those told anew and nothing else. Of ten confusable traces that were held
out, written to share names with their neighbours, it took two for duplicates. Resemblance of the
names, at 0.7, takes none: 0.63 is the most where three are shared. So no part is untouched by it.

An embedding decides nothing here, it only brings candidates: of 49 traces told anew, 47 have the
original as the nearest, all among the nearest five. With all-MiniLM-L6-v2 they have a cosine of
0.70 to 0.95 (median 0.85), and other solutions of the same problem 0.53 to 0.91 (0.81): a threshold
of 0.9 finds 9 of the 49 and two that are none, one of 0.8 finds 41 and 40 others. Another model has
another scale besides. Terms alone, without names, find 3 where nothing confusable is to be found;
weighing terms by idf did no better.

What it cannot see: a negation (stop words count nothing), or one value that was changed in a long
text, which is a copy for it; a translation, or prose without names, if told anew. So whoever is
told of a duplicate needs a way to insist.

To measure again: `python -m benchmarks.trace_duplicates`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from shared.text.terms import resemblance, terms

CANDIDATES: Final = 5
"""How many of the nearest traces are worth comparing."""

_COPIED: Final = 0.6
_SHARED_NAMES: Final = 3
_SAME_NAMES: Final = 0.7
_SAME_SOLUTION: Final = 0.25
_SAME_PROBLEM: Final = 0.1

# Words that are joined: paths, options, qualified names.
_JOINED: Final = re.compile(r"\w++(?:[./:-]++\w++)*+")
# Joined, of letters and digits, in camel case or in capitals; a number alone is no name.
_NAME: Final = re.compile(r"(?!\d+$)(?:.*[_./:\-\d]|.*[a-z][A-Z]|[A-Z]{2,}$)")


@dataclass(frozen=True, slots=True)
class TraceTerms:
    """What a trace is compared by.

    Attributes:
        problem: The terms of its title and its context.
        solution: The terms of its solution.
        names: The names in its solution.
    """

    problem: frozenset[str]
    solution: frozenset[str]
    names: frozenset[str]

    @classmethod
    def of(cls, title: str, context: str, solution: str) -> TraceTerms:
        """Take them from the texts."""
        problem = frozenset(terms(f"{title} {context}"))
        return cls(problem, frozenset(terms(solution)), _names(solution))


def is_near_duplicate(one: TraceTerms, other: TraceTerms) -> bool:
    """Tell whether two traces say the same, in whichever order they are passed."""
    solutions = resemblance(one.solution, other.solution)
    problems = resemblance(one.problem, other.problem)
    if min(solutions, problems) >= _COPIED:
        return True
    return (
        solutions >= _SAME_SOLUTION
        and problems >= _SAME_PROBLEM
        and len(one.names & other.names) >= _SHARED_NAMES
        and resemblance(one.names, other.names) >= _SAME_NAMES
    )


def _names(text: str) -> frozenset[str]:
    """Take the names of a text, without regard to case."""
    return frozenset(word.casefold() for word in _JOINED.findall(text) if _NAME.match(word))
