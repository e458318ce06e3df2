"""Where Carrel's files are, and the commands that messages name.

A checkout keeps its data in its own folder. A package, installed from a wheel, keeps it in the
user's home folder, because `uvx` and `pipx` replace the folder of the package with each version.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
"""The checkout, or the `site-packages` folder of an installed package."""
IS_CHECKOUT: Final = (ROOT / "pyproject.toml").exists()
"""Whether this is a checkout of the repository, not an installed package."""
DATA: Final = (ROOT if IS_CHECKOUT else Path.home()) / ".carrel"
"""The data of local runs, unless CARREL_STATE names another folder."""
PROGRAMS: Final = DATA / "programs"
"""The folder for Java and the Firestore emulator, if Carrel had to fetch them."""


def carrel_program() -> Path:
    """Return the path of the running environment's `carrel` command."""
    return Path(sys.prefix) / "bin" / "carrel"


def carrel_command() -> str:
    """Return the `carrel` command as users write it, in full if it is not on PATH."""
    if IS_CHECKOUT:
        return ".venv/bin/carrel"
    program = carrel_program()
    # `uvx` puts the folder of its environment on the PATH of this process, but not of the user's
    # shell. An activated environment is on both.
    is_active = os.environ.get("VIRTUAL_ENV") == sys.prefix
    folders = os.environ.get("PATH", "").split(os.pathsep)
    others = [folder for folder in folders if is_active or folder != str(program.parent)]
    on_path = shutil.which("carrel", path=os.pathsep.join(others))
    return "carrel" if on_path and Path(on_path).samefile(program) else shlex.quote(str(program))


def run_command(*options: str) -> str:
    """Return the command that starts Carrel with these options."""
    if not IS_CHECKOUT:
        return " ".join([carrel_command(), "up", *options])
    return f"make run ARGS={shlex.quote(' '.join(options))}" if options else "make run"
