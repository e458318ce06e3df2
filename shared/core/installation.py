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


def cache_notice() -> str:
    """Return how to install Carrel if it runs from a cache, as with `uvx` and `pipx run`, or "".

    Once the cache is cleared, a client that starts Carrel there no longer finds it.
    """
    # uv and pipx mark their caches, and single environments, by https://bford.info/cachedir.
    prefix = Path(sys.prefix)
    if IS_CHECKOUT or not any((folder / "CACHEDIR.TAG").exists() for folder in prefix.parents):
        return ""
    import json
    import shlex
    from importlib.metadata import distribution

    origin = json.loads(distribution("carrel").read_text("direct_url.json") or "{}")
    source = origin.get("url", "carrel")
    if vcs := origin.get("vcs_info"):
        revision = vcs.get("requested_revision")
        source = f"{vcs['vcs']}+{source}" + (f"@{revision}" if revision else "")
    install = "pipx install" if "pipx" in prefix.parts else "uv tool install"
    return (
        "Carrel runs from a cache, where clients no longer find it once the cache is cleared."
        f" Install it first: {install} {shlex.quote(source)}"
    )


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
