"""Validates values in the fake provider, and fills in placeholders for those of the cloud.

Values are sent as MessagePack; an unknown value is an extension type.
https://github.com/hashicorp/terraform/blob/v1.11.4/docs/plugin-protocol/object-wire-format.md
"""

from __future__ import annotations

from typing import Any, Final

import msgpack  # type: ignore[import-untyped] # it brings no types

Block = dict[str, Any]
"""A block of the schema: `attributes` by name, and `blocks` by name."""
Value = dict[str, Any]
"""An object: its attributes and its blocks, by name."""

PROJECT_NUMBER: Final = "123456789012"
_UNKNOWN: Final = msgpack.ExtType(0, b"\0")
"""A value that Terraform does not know before the resource is applied."""
_ACCOUNT: Final = "{account_id}@{project}.iam.gserviceaccount.com"
_FROM_THE_CLOUD: Final[dict[str, dict[str, str]]] = {
    "google_artifact_registry_repository": {
        "id": "projects/{project}/locations/{location}/repositories/{repository_id}",
        "name": "{repository_id}",
    },
    "google_monitoring_notification_channel": {
        "name": "projects/{project}/notificationChannels/1",
    },
    "google_project_iam_custom_role": {"name": "projects/{project}/roles/{role_id}"},
    "google_secret_manager_secret": {"id": "projects/{project}/secrets/{secret_id}"},
    "google_service_account": {
        "id": f"projects/{{project}}/serviceAccounts/{_ACCOUNT}",
        "name": f"projects/{{project}}/serviceAccounts/{_ACCOUNT}",
        "email": _ACCOUNT,
        "member": f"serviceAccount:{_ACCOUNT}",
    },
    "google_project": {"number": PROJECT_NUMBER, "id": "projects/{project_id}"},
}
"""The templates of attributes that the cloud assigns and that other resources refer to, by type.

A template is filled with the resource's other attributes.
"""


def decode(packed: bytes) -> Any:
    """Parse a value."""
    return msgpack.unpackb(packed, ext_hook=msgpack.ExtType)


def encode(value: Any) -> bytes:
    """Format a value."""
    return bytes(msgpack.packb(value))


def find_faults(block: Block, value: Value) -> list[str]:
    """Describe the configured values that are not among the documented ones."""
    problems = [
        f"{name}: expected one of {attribute['values']}, got {value[name]!r}"
        for name, attribute in block.get("attributes", {}).items()
        if isinstance(value[name], str)
        and value[name] not in attribute.get("values", [value[name]])
    ]
    for name, nested in block.get("blocks", {}).items():
        for item in _get_items(value[name]):
            problems += [f"{name}.{fault}" for fault in find_faults(nested, item)]
    return problems


def plan_value(block: Block, value: Value) -> Value:
    """Return the planned value, in which attributes that the cloud will assign are unknown."""
    plan = dict(value)
    for name, attribute in block.get("attributes", {}).items():
        if plan[name] is None and "computed" in attribute["is"]:
            plan[name] = _UNKNOWN
    return plan | _apply_to_nested(block, value, plan_value)


def apply_value(kind: str, block: Block, plan: Value) -> Value:
    """Return the applied value, in which placeholders replace unknown values."""
    templates = _FROM_THE_CLOUD.get(kind, {})

    def fill(nested_block: Block, value: Value) -> Value:
        attributes = nested_block.get("attributes", {})
        attribute_values = {
            name: _make_placeholder(templates.get(name), name, attributes[name]["type"], plan)
            if isinstance(field, msgpack.ExtType)
            else field
            for name, field in value.items()
        }
        return attribute_values | _apply_to_nested(nested_block, attribute_values, fill)

    return fill(block, plan)


def explain_refused_deletion(kind: str, state: Value) -> str | None:
    """Say why a resource cannot be deleted; None if it can."""
    protected = {
        "google_firestore_database": ("delete_protection_state", "DELETE_PROTECTION_ENABLED"),
        "google_secret_manager_secret": ("deletion_protection", True),
    }
    name, value = protected.get(kind, ("", None))
    return f"{name} is {value}" if name and state[name] == value else None


def _make_placeholder(template: str | None, name: str, kind: Any, plan: Value) -> Any:
    if template:
        return template.format_map(plan)
    if kind == "string":
        return f"{name} from the cloud"
    if isinstance(kind, list):
        return {} if kind[0] == "map" else []
    return {"number": 1, "bool": False}[kind]


def _apply_to_nested(block: Block, value: Value, change: Any) -> Value:
    """Apply a function to the nested blocks of a value."""
    changed_blocks: Value = {}
    for name, nested in block.get("blocks", {}).items():
        nested_value = value[name]
        if isinstance(nested_value, list):
            changed_blocks[name] = [change(nested, item) for item in nested_value]
        elif isinstance(nested_value, dict):
            changed_blocks[name] = change(nested, nested_value)
    return changed_blocks


def _get_items(value: Any) -> list[Value]:
    if isinstance(value, list):
        return value
    return [value] if isinstance(value, dict) else []
