"""Functions declare the settings, providers and data files that no import shows."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infra.build.bundles import PROVIDERS, list_excluded_modules
from infra.build.discovery import ROOT, jobs, tools
from infra.build.functions import (
    CAPABILITY_SETTINGS,
    JOB_SETTINGS,
    TELEMETRY_SETTINGS,
    TOOL_SETTINGS,
    Function,
    functions,
)
from infra.build.imports import DATA_FILES, FIRST_PARTY, find_data_files, follow_imports
from shared.core import setting_groups, settings
from shared.core.settings import Settings
from shared.runtime import context, job
from shared.runtime.capabilities import ALL_CAPABILITIES, Capability
from shared.runtime.job import Job
from shared.runtime.tool import Tool

SETTINGS_MODULES = [Path(inspect.getfile(module)) for module in (settings, setting_groups)]
COMPOSITION_ROOT = Path(context.__file__)
"""The composition root, which rejects capabilities that a function does not declare."""
JOB_MODULE = Path(job.__file__)
SETTING_NAMES = frozenset(Settings.model_fields)
SECRET_NAMES = {
    name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)
}

every_function = pytest.mark.parametrize("function", functions(), ids=lambda function: function.key)
every_declaration = pytest.mark.parametrize(
    "declaration", [*tools(), *jobs()], ids=lambda declaration: declaration.name
)


@cache
def find_setting_attributes(path: Path) -> set[str]:
    """Find the attributes of `settings` that a module reads."""
    return {
        node.attr
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("settings")
    }


@cache
def find_property_settings() -> dict[str, set[str]]:
    """Find the settings that each property of `Settings` reads."""
    properties = {}
    for node in ast.walk(ast.parse(Path(inspect.getfile(setting_groups)).read_bytes())):
        match node:
            case ast.FunctionDef(name=name, decorator_list=[ast.Name("property")]):
                names = {
                    attribute.attr
                    for attribute in ast.walk(node)
                    if isinstance(attribute, ast.Attribute)
                }
                properties[name] = names & SETTING_NAMES
    return properties


def find_read_settings(*paths: Path) -> set[str]:
    """Find the settings, without secrets, that files read directly or through a property."""
    attributes = {name for path in paths for name in find_setting_attributes(path)}
    properties = find_property_settings()
    indirect = {
        name for attribute in attributes & properties.keys() for name in properties[attribute]
    }
    return ((attributes & SETTING_NAMES) | indirect) - SECRET_NAMES


def find_bundle_modules(function: Function) -> list[Path]:
    """Find the modules of a function's bundle that neither define nor compose settings."""
    files = follow_imports(function.main, list_excluded_modules(function)).files
    return [path for path in files - {*SETTINGS_MODULES, COMPOSITION_ROOT} if path.suffix == ".py"]


def list_capability_settings(capabilities: frozenset[Capability]) -> set[str]:
    """Return the settings that a function with these capabilities gets."""
    return {name for capability in capabilities for name in CAPABILITY_SETTINGS[capability]}


@pytest.mark.parametrize("folder", FIRST_PARTY)
def test_arguments_with_settings_are_named_settings(folder: str) -> None:
    """The tests of this file find the modules that read settings by this name."""
    annotated_arguments = [
        (path.name, node.arg, ast.unparse(node.annotation))
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.arg) and node.annotation
    ]
    other_names = {
        f"{file_name}: {name}"
        for file_name, name, annotation in annotated_arguments
        if re.search(r"\bSettings\b", annotation) and name != "settings"
    }

    assert other_names == set()


@every_function
def test_a_function_gets_every_setting_that_it_reads(function: Function) -> None:
    names = {name.lower() for name in function.settings}
    assert find_read_settings(*find_bundle_modules(function)) - names == set()


@every_declaration
def test_a_declared_setting_exists_and_is_read(declaration: Tool[Any, Any] | Job) -> None:
    [function] = [function for function in functions() if function.name == declaration.name]
    assert set(declaration.settings) <= SETTING_NAMES - SECRET_NAMES
    assert set(declaration.settings) <= find_read_settings(*find_bundle_modules(function))


def test_the_gateway_gets_only_settings_that_it_reads() -> None:
    gateway = functions()[0]
    settings = {name.lower() for name in gateway.settings}
    assert find_read_settings(*find_bundle_modules(gateway)) | {*TELEMETRY_SETTINGS} == settings


def test_settings_of_the_context_follow_from_capabilities() -> None:
    assert find_read_settings(COMPOSITION_ROOT) == {
        *TOOL_SETTINGS,
        *list_capability_settings(frozenset({Capability.EMBEDDING, Capability.GENERATION})),
    }
    assert find_read_settings(JOB_MODULE) <= {*JOB_SETTINGS}


def test_every_setting_goes_to_a_function_unless_it_is_secret() -> None:
    names = {name.lower() for function in functions() for name in function.settings}
    assert names == SETTING_NAMES - SECRET_NAMES


def test_only_embedding_functions_depend_on_the_model() -> None:
    settings_by_function = {function.name: set(function.settings) for function in functions()}
    assert "EMBEDDING_MODEL" in settings_by_function["search_kb"]
    assert "EMBEDDING_MODEL" not in settings_by_function["get_chunk"]
    assert "EMBEDDING_MODEL" not in settings_by_function["cards"]
    assert {"GENERATION_MODEL", "VERTEX_BASE_URL"} <= settings_by_function["cards"]


def test_every_capability_has_its_settings() -> None:
    assert CAPABILITY_SETTINGS.keys() == ALL_CAPABILITIES


def test_every_imported_provider_has_a_capability() -> None:
    """The composition root imports a provider inside the function that makes it."""
    root_nodes = ast.walk(ast.parse(COMPOSITION_ROOT.read_bytes()))
    function_nodes = [node for node in root_nodes if isinstance(node, ast.FunctionDef)]
    imported_modules = {
        node.module
        for function in function_nodes
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("shared.ai.")
    }
    assert PROVIDERS.keys() == imported_modules


def test_modules_that_read_files_declare_them() -> None:
    readers = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for folder in FIRST_PARTY
        for path in (ROOT / folder).rglob("*.py")
        if "__file__" in path.read_text("utf-8")
    }
    assert DATA_FILES.keys() == readers


def test_each_data_file_belongs_to_a_module() -> None:
    paths = [path for folder in FIRST_PARTY for path in (ROOT / folder).rglob("*")]
    data_files = {path for path in paths if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert data_files == {path for module in DATA_FILES for path in find_data_files(module)}
