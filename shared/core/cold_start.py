"""Import this first in a function: it keeps the garbage collector out of the imports.

Importing makes hundreds of thousands of objects that live as long as the process, and the
collector goes over them again and again: without it the imports of a function took about 14 %
less processor time (`benchmarks/cold_start.py`).
"""

from __future__ import annotations

import gc

gc.disable()


def end() -> None:
    """Switch the collector on again, and leave what was imported out of its sight for good."""
    gc.freeze()
    gc.enable()
