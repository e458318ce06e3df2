"""Where Carrel's files are, and the command that starts it.

A checkout keeps its data in its own folder. A package, installed from a wheel, keeps it in the
user's home folder, because `uvx` and `pipx` replace the folder of the package with each version.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from shared.core.installation import IS_CHECKOUT, ROOT, carrel_command

DATA: Final = (ROOT if IS_CHECKOUT else Path.home()) / ".carrel"
"""The data of local runs, unless CARREL_STATE names another folder."""


def run_command(*options: str) -> str:
    """Return the command that starts Carrel with these options."""
    if not IS_CHECKOUT:
        return " ".join([carrel_command(), "up", *options])
    return f"make run ARGS={shlex.quote(' '.join(options))}" if options else "make run"
