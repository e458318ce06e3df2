"""Extracts the schema of Terraform's Google provider from a package of CDK for Terraform.

The package is generated from the provider's own schema, and contains its TypeScript in source maps.
Run this module by hand when the version of the provider or the list of types changes:

    npm pack @cdktf/provider-google@16.12.1 && tar -xf cdktf-provider-google-16.12.1.tgz
    python -m tests.support.fakes.terraform_provider_schema package

The package does not say what the default values are, or which changes replace a resource.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

SCHEMA: Final = Path(__file__).with_name("google_provider_schema.json")
"""The file to which the schema is written."""
RESOURCES: Final = (
    "artifact_registry_repository",
    "artifact_registry_repository_iam_member",
    "billing_budget",
    "cloud_run_v2_service_iam_member",
    "cloud_scheduler_job",
    "cloudfunctions2_function",
    "firestore_database",
    "firestore_field",
    "firestore_index",
    "logging_metric",
    "logging_project_exclusion",
    "monitoring_alert_policy",
    "monitoring_dashboard",
    "monitoring_notification_channel",
    "project_iam_custom_role",
    "project_iam_member",
    "project_service",
    "secret_manager_secret",
    "secret_manager_secret_iam_member",
    "service_account",
    "service_account_iam_member",
    "storage_bucket",
    "storage_bucket_iam_member",
)
"""The types of resources that Carrel's configuration uses, without the prefix `google_`."""
DATA_SOURCES: Final = ("project",)
"""The types of data sources that Carrel's configuration uses, without the prefix `google_`."""
_SOURCE_MAP: Final = re.compile(r"sourceMappingURL=data:application/json;base64,([\w+/=]+)")
_PROVIDER_VERSION: Final = re.compile(r"providerVersion: '([\d.]+)'")
_DECLARATION: Final = re.compile(
    r"^export (?:interface|class) (\w+)(?: extends cdktf\.(\w+))? \{", re.MULTILINE
)
_ROOTS: Final = ("TerraformResource", "TerraformDataSource", "TerraformProvider")
_FIELD: Final = re.compile(
    r"// (\w+) - computed: (true|false), optional: (true|false), required: (true|false)\n"
)
_NESTED_PATTERN: Final = re.compile(r'= new (\w+)\(this, "\w+"(?:, (true|false))?\)')
_ELEMENT: Final = re.compile(r"return new (\w+)\(")
_CONSTRUCTION: Final = re.compile(r"super\(terraformResource, terraformAttribute, (\w+)(, 0)?")
_DECLARATION_PATTERN: Final = re.compile(r"private _\w+\?: ([^;]+);")
_READ: Final = re.compile(r"(?:this\.get(\w+)Attribute\(|= new cdktf\.(\w+)\(this)")
_DOCUMENTATION_PATTERN: Final = re.compile(r"/\*\*(.*?)\*/\s*readonly \w+\??:", re.DOTALL)
_REGISTRY: Final = re.compile(r"\{@link \S+#(\w+) ")
_VALUES: Final = re.compile(r"Possible values: (\[[^\]]+\])")
_TYPES: Final[dict[str, Any]] = {
    "Boolean": "bool",
    "Number": "number",
    "String": "string",
    "List": ["list", "string"],
    "NumberList": ["list", "number"],
    "StringMap": ["map", "string"],
    "StringMapList": ["list", ["map", "string"]],
    "boolean | cdktf.IResolvable": "bool",
    "number": "number",
    "string": "string",
    "string[]": ["list", "string"],
    "{ [key: string]: string }": ["map", "string"],
}
"""The type in Terraform's format for each method or type of the package."""


class _Nesting(NamedTuple):
    """The way in which a class is nested in another.

    Attributes:
        element: The class of an element.
        nesting: "single", "list" or "set".
        single: Whether there is at most one element.
    """

    element: str
    nesting: str
    single: bool


class _Module:
    """The declarations of one file of the package, by name."""

    def __init__(self, script: str) -> None:
        match = _SOURCE_MAP.search(script)
        assert match, "no source map"
        [text] = json.loads(base64.b64decode(match[1]))["sourcesContent"]
        starts = list(_DECLARATION.finditer(text))
        ends = [start.start() for start in starts[1:]] + [len(text)]
        self.bodies = {
            start[1]: text[start.start() : end] for start, end in zip(starts, ends, strict=True)
        }
        [self.root] = [start[1] for start in starts if start[2] in _ROOTS]
        version = _PROVIDER_VERSION.search(text)
        assert version, "no provider version"
        self.version = version[1]

    def schema(self) -> dict[str, Any]:
        """Return the block that the file describes."""
        return self._block(self.root, f"{self.root}Config")

    def _block(self, name: str, interface: str) -> dict[str, Any]:
        body = self.bodies[name]
        values = _find_possible_values(self.bodies.get(interface, ""))
        fields = list(_FIELD.finditer(body))
        bounds = [field.start() for field in fields] + [len(body)]
        block: dict[str, Any] = {"attributes": {}, "blocks": {}}
        for field, end in zip(fields, bounds[1:], strict=True):
            self._add(block, field, body[field.end() : end], values)
        return {part: dict(sorted(entries.items())) for part, entries in block.items() if entries}

    def _add(
        self, block: dict[str, Any], field: re.Match[str], text: str, values: dict[str, list[str]]
    ) -> None:
        name = field[1]
        computed, optional, required = (group == "true" for group in field.groups()[1:])
        nested_match = _NESTED_PATTERN.search(text)
        if nested_match and (optional or required):
            block["blocks"][name] = self._build_nested_block(nested_match, required=required)
            return
        kind = (
            self._build_object_list(nested_match) if nested_match else _parse_attribute_type(text)
        )
        if kind is None:  # a block of the provider itself; Carrel uses none
            return
        flags = {"required": required, "optional": optional, "computed": computed}
        attribute = {"type": kind, "is": " ".join(flag for flag, on in flags.items() if on)}
        if name in values:
            attribute["values"] = values[name]
        block["attributes"][name] = attribute

    def _build_nested_block(self, nested_match: re.Match[str], *, required: bool) -> dict[str, Any]:
        element, nesting, is_single = self._find_nesting(nested_match)
        limits: dict[str, Any] = {"nesting": nesting}
        if required:
            limits["min"] = 1
        if is_single and nesting != "single":
            limits["max"] = 1
        return limits | self._block(element, element.removesuffix("OutputReference"))

    def _build_object_list(self, nested_match: re.Match[str]) -> Any:
        """Return the type of a computed list or set of objects."""
        element, nesting, _ = self._find_nesting(nested_match)
        block = self._block(element, "")
        assert "blocks" not in block, element
        types = {name: attribute["type"] for name, attribute in block.get("attributes", {}).items()}
        return [nesting, ["object", types]]

    def _find_nesting(self, nested_match: re.Match[str]) -> _Nesting:
        name, is_set = nested_match[1], nested_match[2] == "true"
        if name.endswith("List"):
            element = _ELEMENT.search(self.bodies[name])
            assert element, name
            return _Nesting(element[1], "set" if is_set else "list", single=False)
        match = _CONSTRUCTION.search(self.bodies[name])
        assert match, name
        if not match[2]:
            return _Nesting(name, "single", single=True)
        return _Nesting(name, "set" if match[1] == "true" else "list", single=True)


def _parse_attribute_type(text: str) -> Any:
    read = _READ.search(text)
    if read:
        kind = _TYPES[read[1] or read[2]]
        return ["set", kind[1]] if "Fn.tolist" in text else kind
    declared = _DECLARATION_PATTERN.search(text)
    return _TYPES.get(declared[1].removesuffix(" | undefined").strip()) if declared else None


def _find_possible_values(interface: str) -> dict[str, list[str]]:
    """Return the documented values of each field."""
    values_by_field = {}
    for [text] in (match.groups() for match in _DOCUMENTATION_PATTERN.finditer(interface)):
        name, values = _REGISTRY.search(text), _VALUES.search(text)
        if name and values:
            values_by_field[name[1]] = json.loads(values[1])
    return values_by_field


def extract(package: Path) -> dict[str, Any]:
    """Extract the schema of the resources that Carrel uses."""

    def module(folder: str) -> _Module:
        return _Module((package / "lib" / folder / "index.js").read_text("utf-8"))

    provider = module("provider")
    resources = {name: module(name.replace("_", "-")) for name in RESOURCES}
    data = {name: module(f"data-google-{name.replace('_', '-')}") for name in DATA_SOURCES}
    metadata = json.loads((package / "package.json").read_text("utf-8"))
    return {
        "package": f"{metadata['name']} {metadata['version']}",
        "version": provider.version,
        "provider": provider.schema(),
        "resources": {f"google_{name}": resource.schema() for name, resource in resources.items()},
        "data_sources": {f"google_{name}": resource.schema() for name, resource in data.items()},
    }


def format_schema(schema: dict[str, Any]) -> str:
    """Format the schema with one line per type, so that unchanged types are unchanged lines."""
    entries = []
    for name, value in schema.items():
        if name in {"resources", "data_sources"}:
            lines = (f'  "{kind}": {_to_one_line(block)}' for kind, block in value.items())
            entries.append(f'"{name}": {{\n' + ",\n".join(lines) + "\n}")
        else:
            entries.append(f'"{name}": {_to_one_line(value)}')
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _to_one_line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    SCHEMA.write_text(format_schema(extract(Path(sys.argv[1]))), "utf-8")
