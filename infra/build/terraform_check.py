"""Checks Terraform files: `python -m infra.build.terraform_check [FOLDER]`.

Syntax and references are checked without Terraform. If Terraform is installed, its formatter runs
too, and after `terraform init`, its validation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hcl2
from lark.exceptions import LarkError

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER: Final = ROOT / "infra" / "terraform"
EXAMPLE: Final = "example.tfvars.json"
"""The name of the file that shows all variables, which is checked if it exists."""
_REFERENCE: Final = re.compile(r"(?<![\w.\"-])(?:var\.\w+|local\.\w+|(?:data\.)?google_\w+\.\w+)")
"""A reference to a variable, a local value, a resource or a data source."""
_COMMENTS: Final = "__comments__"
"""The key under which the parser stores comments."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A place where one definition refers to another.

    Attributes:
        name: The name that is referred to, such as `var.region` or `google_storage_bucket.texts`.
        file: The file that contains the reference.
        inside: The name of the definition that contains the reference.
    """

    name: str
    file: str
    inside: str


@dataclass(slots=True)
class TerraformConfiguration:
    """The definitions and references in a folder of Terraform files.

    Attributes:
        definitions: The file that defines each name.
        references: All references.
        errors: Syntax errors and duplicate definitions.
    """

    definitions: dict[str, str] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> TerraformConfiguration:
        """Read all files of a folder."""
        configuration = cls()
        for path in sorted(folder.glob("*.tf")):
            try:
                blocks = hcl2.loads(path.read_text("utf-8"))
            except LarkError as error:
                configuration.errors.append(f"{path.name}: {_get_first_line(error)}")
                continue
            for name, body in _iterate_definitions(blocks):
                configuration._add(name, body, path.name)
        return configuration

    def _add(self, name: str, body: Any, file: str) -> None:
        # Blocks without a name of their own, such as `terraform`, may occur several times.
        if "." in name and name in self.definitions:
            self.errors.append(f"{file}: {name} is defined in {self.definitions[name]} too")
        self.definitions[name] = file
        self.references += [Reference(target, file, name) for target in _find_references(body)]

    def find_problems(self) -> list[str]:
        """Return a line for each error, each undefined name, and each unused variable or local."""
        missing = {
            f"{reference.file}: {reference.name} is not defined"
            for reference in self.references
            if reference.name not in self.definitions
        }
        used = {
            reference.name for reference in self.references if reference.name != reference.inside
        }
        unused = {
            f"{file}: {name} is not used"
            for name, file in self.definitions.items()
            if name.startswith(("var.", "local.")) and name not in used
        }
        return self.errors + sorted(missing | unused)


def _iterate_definitions(blocks: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each definition's name, in the form that references use, and its body."""
    for kind, bodies in blocks.items():
        if kind == _COMMENTS:
            continue
        for body in bodies:
            if kind == "locals":
                yield from ((f"local.{name}", value) for name, value in _iterate_attributes(body))
            elif kind in {"resource", "data"}:
                prefix = "data." if kind == "data" else ""
                for resource_type, resources in _iterate_attributes(body):
                    yield from (
                        (f"{prefix}{resource_type}.{name}", block)
                        for name, block in _iterate_attributes(resources)
                    )
            elif kind in {"variable", "output", "provider"}:
                prefix = "var" if kind == "variable" else kind
                yield from (
                    (f"{prefix}.{name}", block) for name, block in _iterate_attributes(body)
                )
            else:
                yield kind, body


def _iterate_attributes(body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield a block's attributes, except those that the parser adds, with unquoted names."""
    for name, value in body.items():
        if not name.startswith("__"):
            yield name.strip('"'), value


def _find_references(body: Any) -> Iterator[str]:
    """Yield the names to which an expression refers, including text that looks like a reference."""
    if isinstance(body, dict):
        for name, value in body.items():
            yield from _find_references(name)
            if name != _COMMENTS:
                yield from _find_references(value)
    elif isinstance(body, list):
        for value in body:
            yield from _find_references(value)
    elif isinstance(body, str):
        yield from (match[0] for match in _REFERENCE.finditer(body))


def _check_example(folder: Path, configuration: TerraformConfiguration) -> list[str]:
    """Return a problem for each undefined variable in the example."""
    if not (folder / EXAMPLE).exists():
        return []
    example = json.loads((folder / EXAMPLE).read_text("utf-8"))
    return [
        f"{EXAMPLE}: there is no variable {name}"
        for name in example
        if f"var.{name}" not in configuration.definitions
    ]


def _check_with_terraform(folder: Path) -> list[str]:
    """Return the problems that Terraform's formatter and validation report."""
    unformatted = _run_terraform(folder, "fmt", "-check", "-recursive").stdout.splitlines()
    problems = [f"{name}: run `terraform fmt`" for name in unformatted if name.endswith(".tf")]
    if (folder / ".terraform").is_dir():
        validation = json.loads(_run_terraform(folder, "validate", "-json").stdout)
        problems += [diagnostic["summary"] for diagnostic in validation["diagnostics"]]
    return problems


def _run_terraform(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own arguments
        ["terraform", f"-chdir={folder}", *arguments],  # noqa: S607 - wherever it is installed
        env={**os.environ, "CHECKPOINT_DISABLE": "1"},  # no check for updates
        capture_output=True,
        text=True,
        check=False,
    )


def check(folder: Path) -> list[str]:
    """Check the files of a folder, and return the problems."""
    configuration = TerraformConfiguration.read(folder)
    problems = configuration.find_problems() + _check_example(folder, configuration)
    if not problems and shutil.which("terraform"):
        problems = _check_with_terraform(folder)
    return problems


def describe_skipped_checks(folder: Path) -> str:
    """Describe the checks that could not run, or return an empty string if all ran."""
    if not shutil.which("terraform"):
        return "Terraform is not installed, so its formatter and validation did not run."
    if not (folder / ".terraform").is_dir():
        return "`terraform validate` did not run, because `terraform init` has not run."
    return ""


def _get_first_line(error: LarkError) -> str:
    return str(error).strip().splitlines()[0]


def main(arguments: Sequence[str]) -> int:
    """Check the given folder, or else the project's folder, and print the problems."""
    folder = Path(arguments[0]) if arguments else FOLDER
    problems = check(folder)
    for line in filter(None, [*problems, describe_skipped_checks(folder)]):
        print(line, file=sys.stderr)  # noqa: T201 - a command's output
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
