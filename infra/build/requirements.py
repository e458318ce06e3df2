"""Finds and locks a bundle's requirements: the distributions that its modules import.

A bundle is the source of one function. A distribution is what pip installs, such as `pyjwt`; it
contains modules, such as `jwt`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from functools import cache
from hashlib import sha256
from importlib.metadata import distributions
from typing import TYPE_CHECKING, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra.build.discovery import ROOT
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

PYTHON_VERSION: Final = "3.11"
"""The Python version of functions: the oldest that Carrel supports. `make lock` writes
constraints.txt for the same version."""
CONSTRAINTS: Final = ROOT / "constraints.txt"
_TARGET: Final = ("--python-version", PYTHON_VERSION, "--python-platform", "x86_64-manylinux_2_28")
"""uv's options for the machine on which functions run."""
_OUTPUT: Final = ("--generate-hashes", "--no-strip-extras", "--no-header", "--no-annotate")
"""uv's options for the form of the locked requirements."""
_PIN_WITH_EXTRAS: Final = re.compile(r"^([\w.-]+)\[[^]]+](==.*\n(?: .*\n)*)", re.MULTILINE)
"""A locked distribution with extras: its name, and its version with the hashes."""
_EXTRA: Final = "vertex-batch"
"""The extra in `pyproject.toml` that some functions need, and most laptops do not."""
_TIME_ZONES: Final = "tzdata"
"""The standard library's `zoneinfo` needs this distribution, because the cloud's images have no
time zone files."""


def find_requirements(modules: Iterable[str]) -> frozenset[str]:
    """Return the requirements in `pyproject.toml` whose distributions contain these modules.

    Raises:
        InvalidInput: `pyproject.toml` does not name a module's distribution, or no installed
            distribution contains the module.
    """
    declared = _load_declared_requirements()
    requirements = set[str]()
    for module in modules:
        name = _find_distribution(module)
        if name is None:
            continue
        if name not in declared:
            raise InvalidInput(f"{module} is imported, but pyproject.toml does not name {name}.")
        requirements.add(declared[name])
    return frozenset(requirements)


def lock_requirements(requirements: Collection[str], cache: Path) -> str:
    """Return the text of a `requirements.txt` with exact versions and hashes.

    Args:
        requirements: The requirements to lock at the versions in constraints.txt.
        cache: A folder for results, so that uv resolves the same requirements only once.

    Raises:
        InvalidInput: uv cannot resolve the requirements, or a version is not in constraints.txt.
    """
    lines = "".join(f"{requirement}\n" for requirement in sorted(requirements))
    key = sha256(f"{_TARGET}{_OUTPUT}{lines}{CONSTRAINTS.read_text()}".encode()).hexdigest()[:16]
    path = cache / f"{key}.txt"
    if not path.exists():
        text = _compile(lines)
        _require_pins(text)
        cache.mkdir(parents=True, exist_ok=True)
        temporary = cache / f"{key}.temporary"
        temporary.write_text(text)
        temporary.replace(path)
    # With a pin of `google-auth[requests]` alone, pip 23 rejects the file if another distribution
    # requires `google-auth` and the package index has a newer version.
    return _PIN_WITH_EXTRAS.sub(r"\1\2\g<0>", path.read_text())


def _compile(lines: str) -> str:
    """Lock requirements, one per line, with uv.

    Raises:
        InvalidInput: uv cannot resolve the requirements.
    """
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", *_TARGET, *_OUTPUT]
    process = subprocess.run(  # noqa: S603 - uv
        [*command, "--quiet", "-c", str(CONSTRAINTS)],
        input=lines,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    if process.returncode:
        raise InvalidInput(
            f"uv cannot lock the requirements of a bundle:\n{process.stderr.strip()}"
        )
    return process.stdout


def _require_pins(text: str) -> None:
    """Check that all locked versions are those of constraints.txt, which tests use.

    Raises:
        InvalidInput: A version is not in constraints.txt.
    """
    pinned, required = (
        {_normalize(line) for line in pins.splitlines() if "==" in line}
        for pins in (CONSTRAINTS.read_text(), text)
    )
    if missing := sorted(required - pinned):
        raise InvalidInput(f"constraints.txt lacks {', '.join(missing)}. Run `make lock`.")


def _normalize(pin: str) -> str:
    """Reduce a line to the distribution and its version, without extras, marker and hashes."""
    requirement = Requirement(pin.rstrip("\\"))
    return f"{canonicalize_name(requirement.name)}{requirement.specifier}"


@cache
def _load_declared_requirements() -> dict[str, str]:
    """Return the requirements in `pyproject.toml` by normalized distribution name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"][_EXTRA]]
    return {canonicalize_name(Requirement(line).name): line for line in lines}


def _find_distribution(module: str) -> str | None:
    """Return the distribution that contains a module.

    Return None for the standard library, for a namespace package such as `google.cloud`, and for
    the full name of a function or class.

    Raises:
        InvalidInput: No installed distribution contains the module, and it is not of the extra.
    """
    if module == "zoneinfo":
        return _TIME_ZONES
    if module.partition(".")[0] in sys.stdlib_module_names:
        return None
    installed = _map_modules_to_distributions()
    if module in installed:
        return installed[module]
    if any(installed.get(parent) for parent in _get_parents(module)):
        return None
    # The extra need not be installed to be staged. Google's distributions are named after packages.
    name = canonicalize_name(module.replace(".", "-"))
    for distribution in _load_declared_requirements():
        if name.startswith(f"{distribution}-"):
            return distribution
    raise InvalidInput(f"{module} is imported, but no installed distribution contains it.")


def _get_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


@cache
def _map_modules_to_distributions() -> dict[str, str | None]:
    """Map each installed module to its distribution, and each namespace package to None.

    No package is imported.
    """
    owners: dict[str, str | None] = {}
    for distribution in distributions():
        name = canonicalize_name(distribution.name)  # each access reads a file
        for file in distribution.files or ():
            if file.suffix in {".py", ".so"}:
                parts = (*file.parts[:-1], file.name.partition(".")[0])
                module = ".".join(parts).removesuffix(".__init__")
                owners[module] = name
                for parent in _get_parents(module):
                    owners.setdefault(parent, None)
    return owners
