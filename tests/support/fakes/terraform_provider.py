"""A fake of Terraform's Google provider, with the real schema but without a cloud.

Terraform attaches to the fake, and `init`, `validate`, `plan`, `apply` and `destroy` run as usual.
The configuration is validated against the real provider's schema, and stored in the state. Values
that the cloud would assign, such as ids and URLs, are placeholders. The fake rejects only values
that Google does not document, and the deletion of protected resources.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

import grpc

from tests.support.fakes import terraform_provider_values as values
from tests.support.fakes.terraform_provider_messages import METHODS, get_message_class
from tests.support.fakes.terraform_provider_schema import SCHEMA

_SOURCE: Final = "registry.terraform.io/hashicorp/google"
"""The address of the provider in Terraform's registry."""
_ERROR: Final = 1
"""The severity of an error in the plugin protocol."""
_NESTING: Final = {"single": 1, "list": 2, "set": 3}
"""The numbers of nesting modes in the plugin protocol."""
_MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of a message from Terraform."""


class TerraformProvider:
    """A fake provider that serves on a socket while the `with` block runs.

    Attributes:
        environment: The variables that make Terraform attach to the fake.
    """

    def __init__(self) -> None:
        """Read the schema."""
        self._schema: dict[str, Any] = json.loads(SCHEMA.read_text("utf-8"))
        self._config: values.Value = {}
        self._folder = TemporaryDirectory()
        address = str(Path(self._folder.name) / "provider")
        self._server = grpc.server(
            ThreadPoolExecutor(8),
            options=[("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES)],
        )
        self._server.add_generic_rpc_handlers((self._make_handlers(),))
        self._server.add_insecure_port(f"unix:{address}")
        self.environment = {
            "TF_REATTACH_PROVIDERS": json.dumps({_SOURCE: _make_reattach_config(address)})
        }

    def __enter__(self) -> Self:
        """Start serving."""
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._server.stop(None).wait()
        self._folder.cleanup()

    def _make_handlers(self) -> Any:
        handlers = {name: _make_handler(name, getattr(self, f"_{name}")) for name in METHODS}
        return grpc.method_handlers_generic_handler("tfplugin5.Provider", handlers)

    def _GetSchema(self, _: Any) -> Any:  # noqa: N802 - the protocol's name, like those below
        return get_message_class("GetSchema.Response")(
            provider=_make_schema(self._schema["provider"]),
            resource_schemas=_list_named_schemas(self._schema["resources"]),
            data_source_schemas=_list_named_schemas(self._schema["data_sources"]),
        )

    def _PrepareProviderConfig(self, request: Any) -> Any:  # noqa: N802
        return get_message_class("PrepareProviderConfig.Response")(prepared_config=request.config)

    def _Configure(self, request: Any) -> Any:  # noqa: N802
        self._config = values.decode(request.config.msgpack)
        return get_message_class("Configure.Response")()

    def _ValidateResourceTypeConfig(self, request: Any) -> Any:  # noqa: N802
        block = self._schema["resources"][request.type_name]
        problems = values.find_faults(block, values.decode(request.config.msgpack))
        diagnostics = [{"severity": _ERROR, "summary": fault} for fault in problems]
        return get_message_class("ValidateResourceTypeConfig.Response")(diagnostics=diagnostics)

    def _ValidateDataSourceConfig(self, _: Any) -> Any:  # noqa: N802
        return get_message_class("ValidateDataSourceConfig.Response")()

    def _UpgradeResourceState(self, request: Any) -> Any:  # noqa: N802
        state = {"json": request.raw_state.json}
        return get_message_class("UpgradeResourceState.Response")(upgraded_state=state)

    def _ReadResource(self, request: Any) -> Any:  # noqa: N802
        return get_message_class("ReadResource.Response")(new_state=request.current_state)

    def _PlanResourceChange(self, request: Any) -> Any:  # noqa: N802
        answer = get_message_class("PlanResourceChange.Response")
        proposed_state = values.decode(request.proposed_new_state.msgpack)
        if proposed_state is None:
            return answer(planned_state=request.proposed_new_state)
        if "project" in proposed_state and proposed_state["project"] is None:
            proposed_state["project"] = self._config["project"]
        plan = values.plan_value(self._schema["resources"][request.type_name], proposed_state)
        return answer(planned_state={"msgpack": values.encode(plan)})

    def _ApplyResourceChange(self, request: Any) -> Any:  # noqa: N802
        answer = get_message_class("ApplyResourceChange.Response")
        plan = values.decode(request.planned_state.msgpack)
        if plan is None:
            refusal = values.explain_refused_deletion(
                request.type_name, values.decode(request.prior_state.msgpack)
            )
            diagnostics = [{"severity": _ERROR, "summary": refusal}] if refusal else []
            state = request.prior_state if refusal else request.planned_state
            return answer(new_state=state, diagnostics=diagnostics)
        block = self._schema["resources"][request.type_name]
        resource = values.apply_value(request.type_name, block, plan)
        return answer(new_state={"msgpack": values.encode(resource)})

    def _ReadDataSource(self, request: Any) -> Any:  # noqa: N802
        block = self._schema["data_sources"][request.type_name]
        plan = values.plan_value(block, values.decode(request.config.msgpack))
        state = values.apply_value(request.type_name, block, plan)
        return get_message_class("ReadDataSource.Response")(state={"msgpack": values.encode(state)})

    def _Stop(self, _: Any) -> Any:  # noqa: N802
        return get_message_class("Stop.Response")()


def _make_handler(name: str, answer: Callable[[Any], Any]) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        lambda request, _: answer(request),
        request_deserializer=get_message_class(f"{name}.Request").FromString,
        response_serializer=get_message_class(f"{name}.Response").SerializeToString,
    )


def _make_reattach_config(address: str) -> dict[str, Any]:
    return {
        "Protocol": "grpc",
        "ProtocolVersion": 5,
        "Pid": os.getpid(),
        "Test": True,  # otherwise, Terraform would end this process
        "Addr": {"Network": "unix", "String": address},
    }


def _list_named_schemas(blocks: dict[str, values.Block]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _make_schema(block)} for name, block in blocks.items()]


def _make_schema(block: values.Block) -> dict[str, Any]:
    return {"block": _to_block(block)}


def _to_block(block: values.Block) -> dict[str, Any]:
    return {
        "attributes": [_to_attribute(*item) for item in block.get("attributes", {}).items()],
        "block_types": [_to_nested_block(*item) for item in block.get("blocks", {}).items()],
    }


def _to_attribute(name: str, attribute: dict[str, Any]) -> dict[str, Any]:
    flags = dict.fromkeys(attribute["is"].split(), True)
    return {"name": name, "type": json.dumps(attribute["type"]).encode(), **flags}


def _to_nested_block(name: str, block: values.Block) -> dict[str, Any]:
    return {
        "type_name": name,
        "block": _to_block(block),
        "nesting": _NESTING[block["nesting"]],
        "min_items": block.get("min", 0),
        "max_items": block.get("max", 0),
    }
