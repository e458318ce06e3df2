"""A tool as a value: what it is called, takes, answers, needs and does."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from shared.core.caller import Scope
from shared.core.json_schema import inline_references
from shared.runtime.schemas import Arguments, IdempotentArguments, Result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.core.caller import Caller, Tier
    from shared.runtime.capabilities import Capability
    from shared.runtime.context import Context
    from shared.runtime.envelope import Envelope
    from shared.runtime.outcome import Outcome


class Effect(StrEnum):
    """What a tool does to data. It decides the tool's MCP hints and its service account's role."""

    READ = "read"
    WRITE = "write"
    DESTROY = "destroy"

    @property
    def scope(self) -> Scope:
        """What a credential must allow for it."""
        return Scope.READ if self is Effect.READ else Scope.WRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTemplate:
    """What a tool's answer is to those who read resources instead of calling tools.

    Attributes:
        uri: Its URI, with one variable in braces: the argument that the tool is then called with.
        name: What programs call it.
        title: What people see.
        description: What reading it gives.
    """

    uri: str
    name: str
    title: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Which part of a tool's result names resources.

    Attributes:
        items: The field that lists them; it may be missing or empty.
        uri: The template of their URIs, whose variable is a field of each item.
        name: The field of each item that names it to people.
        listed: Whether the list of all resources goes through this tool's pages, by the argument
            `cursor` and the result's `next_cursor`.
        walk: The other arguments of that walk: an order in which nothing is lost while it lasts.
    """

    items: str
    uri: str
    name: str
    listed: bool = False
    walk: dict[str, str] = field(default_factory=dict)


READ_SECONDS: Final = 10.0
OTHER_SECONDS: Final = 30.0
_NULL: Final = {"type": "null"}

ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)
ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[ArgumentsT, ResultT]):
    """The declaration of one tool.

    Attributes:
        name: `verb_noun`, the name of its folder too.
        title: What people see.
        description: For the model: when to use the tool, and when another.
        input: What it takes; every field is described.
        output: What it returns; every field is described.
        run: The handler. It sees its arguments and its context, never a request, and returns its
            result, or an outcome where it has more to say.
        effect: What it does to data.
        tier: Who may call it.
        timeout: Seconds it may take; by default 10 to read, and 30 for anything else.
        idempotent: Whether a call that failed may be sent again, key or not: it goes on where the
            first one stopped, and does nothing twice. Those that read are so by nature.
        task: The task that a call works in, by its arguments; by default that of the credential.
        price: The most that a call may cost its caller, in millionths of a dollar.
        text: Its result in words, for who reads; by default, clients see the result as JSON.
        envelope: The shape of answers of its family, if that is not the result itself.
        resource: What its answer is as a resource, if it is one.
        links: Which part of its result names resources, if any does.
        internal: Whether it serves the gateway alone, and no client may see or call it.
        completes: The kinds of names it completes. Such a tool takes `kind` and `prefix`, and
            returns `names`, each with `name` and `id`, and their `total`.
        capabilities: What it reaches beside the database.
        settings: Fields of `Settings` that it reads beside those that follow from its needs.
        memory: MiB of an instance of its function.
        concurrency: Calls that an instance takes at once.
    """

    name: str
    title: str
    description: str
    input: type[ArgumentsT]
    output: type[ResultT]
    run: Callable[[ArgumentsT, Context], Awaitable[ResultT | Outcome[ResultT]]]
    effect: Effect
    tier: Tier
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
        """Seconds it may take, where no setting says otherwise."""
        if self.timeout is not None:
            return self.timeout
        return READ_SECONDS if self.effect is Effect.READ else OTHER_SECONDS

    def declaration(self) -> dict[str, Any]:
        """The tool as data: what the gateway's catalogue holds of it."""
        output = _published(inline_references(self.output.model_json_schema(mode="serialization")))
        taken = inline_references(self.input.model_json_schema(mode="validation"))
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": taken | {"properties": _own_first(taken["properties"])},
            "outputSchema": self.envelope.schema(output) if self.envelope else output,
            "effect": self.effect.value,
            "tier": self.tier.value,
            "timeout": self.time_limit,
            "idempotent": self.idempotent,
            "price": self.price,
            "envelope": self.envelope and asdict(self.envelope),
            "resource": self.resource and asdict(self.resource),
            "links": self.links and asdict(self.links),
            "internal": self.internal,
            "completes": list(self.completes),
        }


def _own_first(fields: dict[str, Any]) -> dict[str, Any]:
    """A tool's own fields, then what all share: models fill in what comes first."""
    common = IdempotentArguments.model_fields.keys()
    return dict(sorted(fields.items(), key=lambda item: item[0] in common))


def _published(node: Any) -> Any:
    """A result's schema for clients: what may be None may be missing, and fields may be added.

    Clients keep a list of tools. A closed schema would make them refuse a field added later.
    """
    if isinstance(node, list):
        return [_published(item) for item in node]
    if not isinstance(node, dict):
        return node
    open_node = {key: _published(value) for key, value in node.items()}
    if open_node.get("additionalProperties") is False:
        del open_node["additionalProperties"]
    fields = node.get("properties", {})
    optional = {name for name, field in fields.items() if _NULL in field.get("anyOf", ())}
    if optional:
        open_node["properties"] |= {
            name: _not_null(open_node["properties"][name]) for name in optional
        }
        open_node["required"] = [name for name in node.get("required", []) if name not in optional]
    return open_node


def _not_null(field: dict[str, Any]) -> dict[str, Any]:
    """The one thing that a field is when it is not None."""
    [only] = (each for each in field["anyOf"] if each != _NULL)
    return {**only, **{key: value for key, value in field.items() if key != "anyOf"}}
