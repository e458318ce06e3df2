"""The messages of Terraform's plugin protocol 5 that the fake provider uses.

https://github.com/hashicorp/terraform/blob/v1.11.4/docs/plugin-protocol/tfplugin5.8.proto
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE: Final = "tfplugin5"
_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bool": _FIELD.TYPE_BOOL,
    "bytes": _FIELD.TYPE_BYTES,
    "int64": _FIELD.TYPE_INT64,
    "string": _FIELD.TYPE_STRING,
}
_MESSAGES: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "DynamicValue": {"msgpack": (1, "bytes"), "json": (2, "bytes")},
    "Diagnostic": {"severity": (1, "int64"), "summary": (2, "string")},
    "Attribute": {
        "name": (1, "string"),
        "type": (2, "bytes"),
        "required": (4, "bool"),
        "optional": (5, "bool"),
        "computed": (6, "bool"),
    },
    "Block": {
        "version": (1, "int64"),
        "attributes": (2, "repeated Attribute"),
        "block_types": (3, "repeated NestedBlock"),
    },
    "NestedBlock": {
        "type_name": (1, "string"),
        "block": (2, "Block"),
        "nesting": (3, "int64"),
        "min_items": (4, "int64"),
        "max_items": (5, "int64"),
    },
    "Schema": {"version": (1, "int64"), "block": (2, "Block")},
    "NamedSchema": {"key": (1, "string"), "value": (2, "Schema")},  # an entry of a map
    "GetSchema.Request": {},
    "GetSchema.Response": {
        "provider": (1, "Schema"),
        "resource_schemas": (2, "repeated NamedSchema"),
        "data_source_schemas": (3, "repeated NamedSchema"),
    },
    "PrepareProviderConfig.Request": {"config": (1, "DynamicValue")},
    "PrepareProviderConfig.Response": {"prepared_config": (1, "DynamicValue")},
    "Configure.Request": {"terraform_version": (1, "string"), "config": (2, "DynamicValue")},
    "Configure.Response": {},
    "ValidateResourceTypeConfig.Request": {
        "type_name": (1, "string"),
        "config": (2, "DynamicValue"),
    },
    "ValidateResourceTypeConfig.Response": {"diagnostics": (1, "repeated Diagnostic")},
    "ValidateDataSourceConfig.Request": {"type_name": (1, "string"), "config": (2, "DynamicValue")},
    "ValidateDataSourceConfig.Response": {"diagnostics": (1, "repeated Diagnostic")},
    "RawState": {"json": (1, "bytes")},
    "UpgradeResourceState.Request": {
        "type_name": (1, "string"),
        "version": (2, "int64"),
        "raw_state": (3, "RawState"),
    },
    "UpgradeResourceState.Response": {"upgraded_state": (1, "DynamicValue")},
    "ReadResource.Request": {"type_name": (1, "string"), "current_state": (2, "DynamicValue")},
    "ReadResource.Response": {"new_state": (1, "DynamicValue")},
    "PlanResourceChange.Request": {
        "type_name": (1, "string"),
        "prior_state": (2, "DynamicValue"),
        "proposed_new_state": (3, "DynamicValue"),
        "config": (4, "DynamicValue"),
    },
    "PlanResourceChange.Response": {"planned_state": (1, "DynamicValue")},
    "ApplyResourceChange.Request": {
        "type_name": (1, "string"),
        "prior_state": (2, "DynamicValue"),
        "planned_state": (3, "DynamicValue"),
    },
    "ApplyResourceChange.Response": {
        "new_state": (1, "DynamicValue"),
        "diagnostics": (3, "repeated Diagnostic"),
    },
    "ReadDataSource.Request": {"type_name": (1, "string"), "config": (2, "DynamicValue")},
    "ReadDataSource.Response": {"state": (1, "DynamicValue")},
    "Stop.Request": {},
    "Stop.Response": {},
}
"""The number and the type of each field, by message and field name."""


def _describe_messages() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="tfplugin5.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name.replace(".", "_"))
        for field, (number, kind) in fields.items():
            element_type = kind.removeprefix("repeated ")
            field_descriptor = message.field.add(name=field, number=number)
            field_descriptor.label = (
                _FIELD.LABEL_REPEATED if element_type != kind else _FIELD.LABEL_OPTIONAL
            )
            field_descriptor.type = _SCALARS.get(element_type, _FIELD.TYPE_MESSAGE)
            if element_type not in _SCALARS:
                field_descriptor.type_name = f".{_PACKAGE}.{element_type}"
    return file


MESSAGES: Final[dict[str, Any]] = message_factory.GetMessages(
    [_describe_messages()], pool=descriptor_pool.DescriptorPool()
)


def get_message_class(name: str) -> Any:
    """Return the class of a message, such as `Schema` or `Configure.Request`."""
    return MESSAGES[f"{_PACKAGE}.{name.replace('.', '_')}"]


METHODS: Final = tuple(
    name.removesuffix(".Request") for name in _MESSAGES if name.endswith(".Request")
)
"""The methods of a provider."""
