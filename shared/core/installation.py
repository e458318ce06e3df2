"""How this installation is called: every message that names a `carrel` command takes it from here.

A clone runs `.venv/bin/carrel`, and `uvx` and `pipx` put the command elsewhere, on PATH or not.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from shared.core.target import is_local

ROOT: Final = Path(__file__).resolve().parents[2]
"""The checkout, or the `site-packages` folder of an installed package."""
IS_CHECKOUT: Final = (ROOT / "pyproject.toml").exists()
"""Whether this is a checkout of the repository, not an installed package."""
_CLONE_PROGRAM: Final = ".venv/bin/carrel"


def carrel_program() -> Path:
    """Return the path of the running environment's `carrel` command."""
    return Path(sys.prefix) / "bin" / "carrel"


def carrel_command() -> str:
    """Return the `carrel` command as users write it, in full if it is not on PATH."""
    program = carrel_program()
    if IS_CHECKOUT or not program.exists():  # a deployed function, which was deployed from a clone
        return _CLONE_PROGRAM
    import shlex
    import shutil

    # `uvx` puts the folder of its environment on the PATH of this process, but not of the user's
    # shell. An activated environment is on both.
    is_active = os.environ.get("VIRTUAL_ENV") == sys.prefix
    folders = os.environ.get("PATH", "").split(os.pathsep)
    others = [folder for folder in folders if is_active or folder != str(program.parent)]
    on_path = shutil.which("carrel", path=os.pathsep.join(others))
    return "carrel" if on_path and Path(on_path).samefile(program) else shlex.quote(str(program))


def carrel(arguments: str) -> str:
    """Return a `carrel` command that works on the knowledge base of this process.

    Call it when a message is made, not when a module is imported: then, a command does not know yet
    which base it works on.
    """
    return f"{carrel_command()} {arguments}" if is_local() else carrel_on_deployment(arguments)


def carrel_on_deployment(arguments: str) -> str:
    """Return a `carrel` command that works on a deployment."""
    return f"{carrel_command()} --cloud {arguments}"


def carrel_deploy() -> str:
    """Return the command that deploys, for which --cloud has no meaning."""
    return f"{carrel_command()} deploy"
