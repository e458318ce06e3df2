"""Hands Terraform the schema of its Google provider, and checks the values that Google documents.

`terraform validate` needs no more, and `terraform test` itself mocks what a provider would do. The
messages are those of plugin protocol 5:
https://github.com/hashicorp/terraform/blob/v1.11.4/docs/plugin-protocol/tfplugin5.8.proto
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

import grpc
import msgpack  # type: ignore[import-untyped] # it brings no types
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.support.fakes.terraform_provider_schema import SCHEMA

_SOURCE: Final = "registry.terraform.io/hashicorp/google"
"""The address of the provider in Terraform's registry."""
_ERROR: Final = 1
"""The severity of an error in the plugin protocol."""
_NESTING: Final = {"single": 1, "list": 2, "set": 3}
"""The numbers of nesting modes in the plugin protocol."""
_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bool": _FIELD.TYPE_BOOL,
    "bytes": _FIELD.TYPE_BYTES,
    "int64": _FIELD.TYPE_INT64,
    "string": _FIELD.TYPE_STRING,
}
_MESSAGES: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "DynamicValue": {"msgpack": (1, "bytes")},
    "Diagnostic": {"severity": (1, "int64"), "summary": (2, "string")},
    "Attribute": {
        "name": (1, "string"),
        "type": (2, "bytes"),
        "required": (4, "bool"),
        "optional": (5, "bool"),
        "computed": (6, "bool"),
    },
    "Block": {"attributes": (2, "repeated Attribute"), "block_types": (3, "repeated NestedBlock")},
    "NestedBlock": {
        "type_name": (1, "string"),
        "block": (2, "Block"),
        "nesting": (3, "int64"),
        "min_items": (4, "int64"),
        "max_items": (5, "int64"),
    },
    "Schema": {"block": (2, "Block")},
    "NamedSchema": {"key": (1, "string"), "value": (2, "Schema")},  # an entry of a map
    "GetSchema": {
        "provider": (1, "Schema"),
        "resource_schemas": (2, "repeated NamedSchema"),
        "data_source_schemas": (3, "repeated NamedSchema"),
    },
    "PrepareProviderConfig": {"config": (1, "DynamicValue")},  # the answer repeats the request
    "ValidateRequest": {"type_name": (1, "string"), "config": (2, "DynamicValue")},
    "Diagnostics": {"diagnostics": (1, "repeated Diagnostic")},
}
"""The number and the type of each field, by message and field name."""


class TerraformProvider:
    """A provider that serves on a socket while the `with` block runs.

    Attributes:
        environment: The variables that make Terraform attach to it.
    """

    def __init__(self) -> None:
        """Read the schema."""
        self._schema: dict[str, Any] = json.loads(SCHEMA.read_text("utf-8"))
        self._folder = TemporaryDirectory()
        address = str(Path(self._folder.name) / "provider")
        self._server = grpc.server(ThreadPoolExecutor(8))
        handlers = {
            "GetSchema": _make_handler("GetSchema", self._get_schema),
            "PrepareProviderConfig": _make_handler("PrepareProviderConfig", lambda config: config),
            "ValidateResourceTypeConfig": _make_handler("ValidateRequest", self._validate),
            "ValidateDataSourceConfig": _make_handler("ValidateRequest", self._validate),
        }
        service = grpc.method_handlers_generic_handler("tfplugin5.Provider", handlers)
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix:{address}")
        config = {
            "Protocol": "grpc",
            "ProtocolVersion": 5,
            "Pid": os.getpid(),
            "Test": True,  # otherwise, Terraform would end this process
            "Addr": {"Network": "unix", "String": address},
        }
        self.environment = {"TF_REATTACH_PROVIDERS": json.dumps({_SOURCE: config})}

    def __enter__(self) -> Self:
        """Start serving."""
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._server.stop(None).wait()
        self._folder.cleanup()

    def _get_schema(self, _: Any) -> Any:
        return _CLASSES["GetSchema"](
            provider=_make_schema(self._schema["provider"]),
            resource_schemas=_list_named_schemas(self._schema["resources"]),
            data_source_schemas=_list_named_schemas(self._schema["data_sources"]),
        )

    def _validate(self, request: Any) -> Any:
        kinds = self._schema["resources"] | self._schema["data_sources"]
        value = msgpack.unpackb(request.config.msgpack, ext_hook=msgpack.ExtType)
        faults = _find_faults(kinds[request.type_name], value)
        return _CLASSES["Diagnostics"](
            diagnostics=[{"severity": _ERROR, "summary": fault} for fault in faults]
        )


def _find_faults(block: dict[str, Any], value: dict[str, Any]) -> list[str]:
    """Describe the configured values that are not among the documented ones."""
    faults = [
        f"{name}: expected one of {attribute['values']}, got {value[name]!r}"
        for name, attribute in block.get("attributes", {}).items()
        if "values" in attribute
        and isinstance(value[name], str)
        and value[name] not in attribute["values"]
    ]
    for name, nested in block.get("blocks", {}).items():
        items = value[name] if isinstance(value[name], list) else [value[name]]
        for item in items:
            if isinstance(item, dict):
                faults += [f"{name}.{fault}" for fault in _find_faults(nested, item)]
    return faults


def _list_named_schemas(blocks: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _make_schema(block)} for name, block in blocks.items()]


def _make_schema(block: dict[str, Any]) -> dict[str, Any]:
    return {"block": _to_block(block)}


def _to_block(block: dict[str, Any]) -> dict[str, Any]:
    return {
        "attributes": [
            {
                "name": name,
                "type": json.dumps(attribute["type"]).encode(),
                **dict.fromkeys(attribute["is"].split(), True),
            }
            for name, attribute in block.get("attributes", {}).items()
        ],
        "block_types": [
            {
                "type_name": name,
                "block": _to_block(nested),
                "nesting": _NESTING[nested["nesting"]],
                "min_items": nested.get("min", 0),
                "max_items": nested.get("max", 0),
            }
            for name, nested in block.get("blocks", {}).items()
        ],
    }


def _make_handler(request: str, answer: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        lambda message, _: answer(message),
        request_deserializer=_CLASSES[request].FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


def _make_classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="tfplugin5.proto", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            element = kind.removeprefix("repeated ")
            descriptor = message.field.add(name=field, number=number)
            descriptor.label = _FIELD.LABEL_REPEATED if element != kind else _FIELD.LABEL_OPTIONAL
            descriptor.type = _SCALARS.get(element, _FIELD.TYPE_MESSAGE)
            if element not in _SCALARS:
                descriptor.type_name = f".{element}"
    return dict(message_factory.GetMessages([file], pool=descriptor_pool.DescriptorPool()))


_CLASSES: Final = _make_classes()
"""The classes of the messages, by name."""
