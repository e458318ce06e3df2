"""A tool as a value: its name, schemas, handler and requirements."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from shared.core.caller import Role, Scope
from shared.core.json_schema import inline_references
from shared.runtime.schemas import Arguments, IdempotentArguments, Result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from shared.core.caller import Caller, Tier
    from shared.runtime.capabilities import Capability
    from shared.runtime.context import Context
    from shared.runtime.envelope import Envelope
    from shared.runtime.outcome import Outcome


class Effect(StrEnum):
    """The effect of a tool on data, which decides its MCP hints and its service account's role."""

    READ = "read"
    WRITE = "write"
    DESTROY = "destroy"

    @property
    def scope(self) -> Scope:
        """The scope that a credential needs for a tool with this effect."""
        return Scope.READ if self is Effect.READ else Scope.WRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTemplate:
    """A tool's answer as an MCP resource, for clients that read resources.

    Attributes:
        uri: The URI template, with one variable in braces: an argument of the tool.
        name: The name for programs.
        title: The name for people.
        description: What the resource contains.
    """

    uri: str
    name: str
    title: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The part of a tool's result that links to resources.

    Attributes:
        items: The field that lists the items, which may be missing or empty.
        uri: The template of their URIs, whose variable is a field of an item.
        name: The field of an item that names it for people.
        listed: Whether `resources/list` pages through this tool, by the argument `cursor` and the
            result's `next_cursor`.
        walk: The other arguments for paging, such as an order that is stable between pages.
    """

    items: str
    uri: str
    name: str
    listed: bool = False
    walk: dict[str, str] = field(default_factory=dict)


READ_SECONDS: Final = 10.0
"""The default time limit of a tool that reads."""
OTHER_SECONDS: Final = 30.0
"""The default time limit of any other tool."""
_NULL: Final = {"type": "null"}
_TYPE_KEYWORDS: Final = frozenset(
    {"type", "enum", "const", "items", "properties", "required", "additionalProperties", "anyOf"}
)
"""The keywords of a published result's schema."""

ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)
ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[ArgumentsT, ResultT]):
    """The declaration of one tool.

    Attributes:
        name: The tool's name, `verb_noun`, which is also its folder's.
        title: The name for people.
        description: Tells the model when to use the tool, and when another.
        input: The arguments; every field is described.
        output: The result; every field is described.
        run: The handler. It takes the arguments and the context, never a request, and returns the
            result, or an outcome with more facts.
        effect: What it does to data.
        tier: Who may call it.
        role: The role that its caller needs.
        required_scope: The scope that a credential needs, if not that of its effect.
        timeout: Seconds that a call may take; by default 10 for a read, and 30 otherwise.
        idempotent: Whether a failed call may be sent again even without a key, since it only does
            what the first one did not. Reads always are.
        task: Returns the task that a call works in; by default, the credential's task.
        price: The highest price of a call, in millionths of a dollar.
        text: Writes the result as text for people; by default, clients see the result as JSON.
        envelope: The shape of its family's answers, if that is not the bare result.
        resource: Its answer as a resource, if it is one.
        links: The part of its result that links to resources, if there is one.
        internal: Whether only the gateway may call it; clients do not see it.
        completes: The kinds of names that it completes. Such a tool takes `kind` and `prefix`, and
            returns `names`, each with `name` and `id`, and their `total`.
        capabilities: The external services that it uses.
        settings: Fields of `Settings` that it reads, other than those of its capabilities.
        memory: The memory of an instance of its function, in MiB.
        concurrency: How many calls an instance takes at once.
    """

    name: str
    title: str
    description: str
    input: type[ArgumentsT]
    output: type[ResultT]
    run: Callable[[ArgumentsT, Context], Awaitable[ResultT | Outcome[ResultT]]]
    effect: Effect
    tier: Tier
    role: Role = Role.READER
    required_scope: Scope | None = None
    timeout: float | None = None
    idempotent: bool = False
    task: Callable[[ArgumentsT, Caller], str | None] | None = None
    price: int = 0
    text: Callable[[ResultT], str] | None = None
    envelope: Envelope | None = None
    resource: ResourceTemplate | None = None
    links: Links | None = None
    internal: bool = False
    completes: tuple[str, ...] = ()
    capabilities: frozenset[Capability] = frozenset()
    settings: tuple[str, ...] = ()
    memory: int = 512
    concurrency: int = 16

    @property
    def time_limit(self) -> float:
        """Seconds that a call may take unless a setting says otherwise."""
        if self.timeout is not None:
            return self.timeout
        return READ_SECONDS if self.effect is Effect.READ else OTHER_SECONDS

    @property
    def scope(self) -> Scope:
        """The scope that a credential needs."""
        return self.required_scope or self.effect.scope

    def declaration(self) -> dict[str, Any]:
        """Return the tool as data, for the gateway's catalogue."""
        schema = inline_references(self.output.model_json_schema(mode="serialization"))
        output = _open_schema(schema, nullable=self.output.always_included)
        parameters = _strip_null(inline_references(self.input.model_json_schema(mode="validation")))
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": parameters
            | {"properties": _put_own_fields_first(parameters["properties"])},
            "outputSchema": _reduce_to_names_and_types(
                self.envelope.schema(output) if self.envelope else output
            ),
            "effect": self.effect.value,
            "tier": self.tier.value,
            "role": self.role.value,
            "scope": self.scope.value,
            "timeout": self.time_limit,
            "idempotent": self.idempotent,
            "price": self.price,
            "envelope": self.envelope and asdict(self.envelope),
            "resource": self.resource and asdict(self.resource),
            "links": self.links and asdict(self.links),
            "internal": self.internal,
            "completes": list(self.completes),
        }


def _put_own_fields_first(fields: dict[str, Any]) -> dict[str, Any]:
    """Put a tool's own fields before the common ones: models fill in the first fields first."""
    common = IdempotentArguments.model_fields.keys()
    return dict(sorted(fields.items(), key=lambda item: item[0] in common))


def _open_schema(node: Any, nullable: Collection[str] = ()) -> Any:
    """Open a result's schema for clients: optional fields may be missing, and others may be added.

    Fields of the node itself that are `nullable` are null instead of missing. Clients cache the
    list of tools, and with a closed schema would reject a field added later.
    """
    if isinstance(node, list):
        return [_open_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    open_node = {key: _open_schema(value) for key, value in node.items()}
    if open_node.get("additionalProperties") is False:
        del open_node["additionalProperties"]
    fields = node.get("properties", {})
    optional = {
        name
        for name, field in fields.items()
        if _NULL in field.get("anyOf", ()) and name not in nullable
    }
    if optional:
        open_node["properties"] |= {
            name: _make_not_null(open_node["properties"][name]) for name in optional
        }
        open_node["required"] = [name for name in node.get("required", []) if name not in optional]
    return open_node


def _strip_null(node: Any) -> Any:
    """Publish optional arguments without null: clients omit them. Null is still accepted."""
    if isinstance(node, list):
        return [_strip_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    field = _make_not_null(node) if _NULL in node.get("anyOf", ()) and "default" in node else node
    return {
        key: _strip_null(value)
        for key, value in field.items()
        if not (key == "default" and value is None)
    }


def _reduce_to_names_and_types(node: Any) -> Any:
    """Reduce a result's schema to names and types: every conversation pays for its length.

    Descriptions of results are for readers of the code; a model reads the result itself.
    """
    if isinstance(node, list):
        return [_reduce_to_names_and_types(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _reduce_to_names_and_types(field) for name, field in value.items()}
        if key == "properties"
        else _reduce_to_names_and_types(value)
        for key, value in node.items()
        if key in _TYPE_KEYWORDS
    }


def _make_not_null(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field without null."""
    options = [option for option in field["anyOf"] if option != _NULL]
    schema = options[0] if len(options) == 1 else {"anyOf": options}
    return {**schema, **{key: value for key, value in field.items() if key != "anyOf"}}
