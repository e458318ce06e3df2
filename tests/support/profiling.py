"""Counts of function calls, by which tests tell linear from quadratic time without a clock."""

import sys
from collections import Counter
from collections.abc import Callable


def count_calls(work: Callable[[], object]) -> int:
    """Count the calls of functions, also of C functions, while `work` runs."""
    events: Counter[str] = Counter()
    previous_profiler = sys.getprofile()  # coverage may have set one
    sys.setprofile(lambda _frame, event, _argument: events.update([event]))
    try:
        work()
    finally:
        sys.setprofile(previous_profiler)
    return events["call"] + events["c_call"]
