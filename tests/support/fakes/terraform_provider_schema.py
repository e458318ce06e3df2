"""Extracts what Carrel's configuration needs from the schema of Terraform's Google provider.

Run this module by hand when the version of the provider or the list of types changes, in a folder
whose `versions.tf` requires exactly that version:

    terraform init && terraform providers schema -json > schema.json
    python -m tests.support.fakes.terraform_provider_schema schema.json 6.50.0

The file of 6.50.0 came from the npm package @cdktf/provider-google 16.12.1, which is generated from
the same schema. It says neither what the default values are, nor which changes replace a resource.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from infra.build.discovery import ROOT

SCHEMA: Final = Path(__file__).with_name("google_provider_schema.json")
"""The file to which the schema is written."""
_PROVIDER: Final = "registry.terraform.io/hashicorp/google"
_USE: Final = re.compile(r'^(resource|data) "(\w+)"', re.MULTILINE)
"""The declaration of a resource or of a data source."""
_VALUES: Final = re.compile(r"Possible values: (\[[^]]*\])")
"""The documented values of an attribute, in its description."""


def extract(schema: dict[str, Any], version: str) -> dict[str, Any]:
    """Extract the schema of the types that Carrel uses."""
    provider = schema["provider_schemas"][_PROVIDER]
    texts = [path.read_text("utf-8") for path in (ROOT / "infra" / "terraform").glob("*.tf")]
    uses = sorted({use for text in texts for use in _USE.findall(text)})
    return {
        "version": version,
        "provider": _convert_block(provider["provider"]["block"]),
        **{
            name: {
                kind: _convert_block(provider[source][kind]["block"])
                for use, kind in uses
                if use == keyword
            }
            for name, source, keyword in (
                ("resources", "resource_schemas", "resource"),
                ("data_sources", "data_source_schemas", "data"),
            )
        },
    }


def _convert_block(block: dict[str, Any]) -> dict[str, Any]:
    attributes = {}
    for name, attribute in sorted(block.get("attributes", {}).items()):
        flags = [flag for flag in ("required", "optional", "computed") if attribute.get(flag)]
        attributes[name] = {"type": attribute["type"], "is": " ".join(flags)}
        if values := _VALUES.search(attribute.get("description", "")):
            attributes[name]["values"] = json.loads(values[1])
    blocks = {
        name: {
            "nesting": nested["nesting_mode"],
            **{key: nested[f"{key}_items"] for key in ("min", "max") if f"{key}_items" in nested},
            **_convert_block(nested["block"]),
        }
        for name, nested in sorted(block.get("block_types", {}).items())
    }
    parts = {"attributes": attributes, "blocks": blocks}
    return {name: entries for name, entries in parts.items() if entries}


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
    extracted = extract(json.loads(Path(sys.argv[1]).read_text("utf-8")), sys.argv[2])
    SCHEMA.write_text(format_schema(extracted), "utf-8")
