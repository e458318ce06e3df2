"""Which settings a function reads: it is given those, and a change of others leaves it alone."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shared.core.settings import Settings
from shared.runtime.capabilities import EVERYTHING, Need

if TYPE_CHECKING:
    from infra.build.functions import Function
    from infra.build.imports import Reach

_OF_NEEDS: Final = {
    "embedding_": {Need.EMBEDDING},
    "openai_": {Need.EMBEDDING},
    "vertex_": {Need.EMBEDDING, Need.GENERATION},
    "generation_": {Need.GENERATION},
    "readwise_": {Need.READWISE},
}
"""How the settings begin that only these needs read: the context mentions them for all."""


def settings_read(function: Function, found: Reach) -> set[str]:
    """The environment variables, without secrets, that the files of a bundle may read.

    A file that mentions a name, of a setting or of a property made of settings, may read it, unless
    that serves a need which its function does not declare.
    """
    own = Path(inspect.getfile(Settings))
    mentioned = {name for path, names in found.names.items() if path != own for name in names}
    fields = mentioned & Settings.model_fields.keys()
    for name, behind in _properties(own).items():
        fields |= behind if name in mentioned else set()
    # The gateway asks no provider, but must know which one its tools do.
    needs = EVERYTHING if function.kind == "gateway" else function.needs
    return {name.upper() for name in fields - _secrets() if _serves(name, needs)}


def _serves(name: str, needs: frozenset[Need]) -> bool:
    serving = [of for beginning, of in _OF_NEEDS.items() if name.startswith(beginning)]
    return not serving or any(of & needs for of in serving)


@cache
def _secrets() -> set[str]:
    """The settings that no environment variable may hold in plain sight."""
    fields = Settings.model_fields.items()
    return {name for name, field in fields if "SecretStr" in str(field.annotation)}


@cache
def _properties(path: Path) -> dict[str, set[str]]:
    """The settings behind each property."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.FunctionDef(name=name, decorator_list=[ast.Name("property")]):
                names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
                found[name] = names & Settings.model_fields.keys()
    return found
