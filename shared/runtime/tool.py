"""The declaration of a tool: its name, schemas, handler and requirements."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from shared.core.caller import Role, Scope
from shared.core.json_schema import inline_references
from shared.runtime.pagination import PagedArguments
from shared.runtime.schemas import EMPTY_IS_ABSENT, FOR_APPS, Arguments, IdempotentArguments, Result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

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
    """Publishes a tool's answer as an MCP resource, for clients that read resources.

    Attributes:
        uri: The URI template, with one variable in braces: an argument of the tool.
        name: The name for programs.
        description: What the resource contains.
    """

    uri: str
    name: str
    title: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceListing:
    """A tool through whose pages `resources/list` goes, by `cursor` and `next_cursor`.

    Attributes:
        items_field: The result's field with the items. It may be missing or empty.
        uri_template: The template of the items' URIs, whose variable is a field of the item.
        name_field: The field of an item that contains its name for people.
        paging_arguments: The other arguments for paging, such as an order that is stable between
            pages.
    """

    items_field: str
    uri_template: str
    name_field: str
    paging_arguments: dict[str, str] = field(default_factory=dict)


READ_SECONDS: Final = 10.0
"""The default time limit of a tool that reads."""
OTHER_SECONDS: Final = 30.0
"""The default time limit of any other tool."""
_NULL: Final = {"type": "null"}
_RESULT_KEYWORDS: Final = frozenset({"type", "anyOf"})
"""The JSON Schema keywords that stay in the schema of a published result's field."""
_ARGUMENT_KEYWORDS: Final = frozenset(
    {
        *("type", "items", "properties", "additionalProperties", "anyOf"),
        *("required", "description", "enum", "maximum"),
    }
)
"""The JSON Schema keywords that stay in the published schema of arguments.

The tool checks the others, such as lengths and patterns. Models have no use for them: they cannot
count characters, they copy ids from other answers, and the error for a wrong value explains what is
allowed."""
_PLAIN: Final = frozenset(
    {
        *("cursor", "idempotency_key", "limit", "max_tokens", "time_zone"),
        *("end", "folder", "language", "order", "prefix", "reason", "sort", "start", "tags_all"),
        *("include_members", "member_limit", "include_related", "related_limit"),
    }
)
"""The arguments that are published without their descriptions, because their names say enough."""

_FORMS: Final = frozenset({"enum", "format", "pattern", *EMPTY_IS_ABSENT})
"""The keywords of texts that cannot be empty, such as ids and dates. A least length is none of
them: whoever empties a title may mean to remove it, and is to learn that this is not possible."""

ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)
ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[ArgumentsT, ResultT]):
    """The declaration of one tool.

    Attributes:
        name: The name of the tool and of its folder, as `verb_noun`.
        description: Tells the model when to use the tool, and when to use another.
        input: The type of the arguments. Every field must have a description.
        output: The type of the result. Every field must have a description.
        run: The handler. It gets the arguments and the context, never the request, and returns the
            result, or an outcome with more facts.
        required_scope: The scope that a credential needs, if not the effect's scope.
        timeout: Seconds that a call may take; by default 10 for a read, and 30 otherwise.
        idempotent: Whether a failed call may be repeated even without a key, because the second
            call does only what the first did not. Reads may always be repeated.
        task: Returns the task in which a call works; by default, the credential's task.
        price: The highest price of a call, in millionths of a dollar.
        text: Writes the result as text, with all that models get of it: some clients show them the
            text, others the JSON. By default, the text is the JSON.
        message: Says what the fields of a result do not, in sentences. It is the result's last
            field.
        envelope: The shape of the tool family's answers, if they are not bare results.
        resource: How the answer is published as a resource, if it is.
        listing: How the answers are listed as resources, if they are.
        app: The app that shows the answer to people in clients with MCP Apps: a script in
            `functions/gateway/apps`. For an internal tool, the app that may call the tool.
        internal: Whether only the gateway and the tool's app may call the tool, so that models do
            not see it.
        completes: The kinds of names that the tool completes. Such a tool takes `kind` and
            `prefix`, and returns `names`, each with `name` and `id`, and their `total`.
        settings: The fields of `Settings` that the tool reads, except those of its capabilities.
        memory: The memory of the function's instances, in MiB.
        concurrency: How many calls an instance handles at once.
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
    message: Callable[[ResultT], str | None] | None = None
    envelope: Envelope | None = None
    resource: ResourceTemplate | None = None
    listing: ResourceListing | None = None
    app: str | None = None
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

    @property
    def absent_if_empty(self) -> list[str]:
        """The texts and lists for which an empty one can only mean that nothing was given.

        They are optional; texts are of a form, and lists have a least number of items. Where null
        removes a value, an empty text may mean the same. Where no text is taken, an empty one is
        never a value.
        """
        schema = inline_references(self.input.model_json_schema(mode="validation"))
        optional = schema["properties"].keys() - set(schema.get("required", ()))
        return sorted(name for name in optional if _is_never_empty(schema["properties"][name]))

    def declaration(self) -> dict[str, Any]:
        """Return the tool's entry in the gateway's catalogue, as JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": _publish_arguments(self.input),
            "outputSchema": self._build_output_schema(),
            "effect": self.effect.value,
            "tier": self.tier.value,
            "role": self.role.value,
            "scope": self.scope.value,
            "timeout": self.time_limit,
            "idempotent": self.idempotent,
            "price": self.price,
            "envelope": self.envelope and asdict(self.envelope),
            "resource": self.resource and asdict(self.resource),
            "listing": self.listing and asdict(self.listing),
            "app": self.app,
            "internal": self.internal,
            "completes": list(self.completes),
            "absent_if_empty": self.absent_if_empty,
            "for_apps": self._list_fields_for_apps(),
        }

    def _list_fields_for_apps(self) -> list[str]:
        """Return the paths of the result's fields that models do not get: `results.rank`."""
        schema = inline_references(self.output.model_json_schema(mode="serialization"))
        return sorted(_iterate_fields_for_apps(schema))

    def _build_output_schema(self) -> dict[str, Any]:
        schema = _publish_result(self.output)
        if self.message:
            schema["properties"]["message"] = {"type": "string"}
        return self.envelope.build_schema(schema) if self.envelope else schema


def _publish_arguments(arguments: type[Arguments]) -> dict[str, Any]:
    """Return the schema of a tool's arguments as clients see it.

    Optional arguments are published without null, which the tool nevertheless accepts: clients
    should omit an argument rather than pass null.
    """
    schema = inline_references(arguments.model_json_schema(mode="validation"))
    del schema["description"]  # It describes the class.
    published: dict[str, Any] = _keep_keywords(schema, _ARGUMENT_KEYWORDS, _has_null_as_default)
    fields = published["properties"]
    return published | {"properties": {name: fields[name] for name in put_own_fields_first(fields)}}


def _publish_result(result: type[Result]) -> dict[str, Any]:
    """Return the schema of a tool's result as clients see it: its fields and their types.

    What is within a field serves readers of the code; a model reads the result itself. No field is
    required, because fields that are None are omitted. Other fields are allowed, because clients
    that store the schema must accept later releases. Fields that are always included may be null.
    """
    schema = inline_references(result.model_json_schema(mode="serialization"))
    fields = {
        name: _keep_keywords(part, _RESULT_KEYWORDS)
        if name in result.always_included
        else _keep_keywords(part, _RESULT_KEYWORDS, _is_nullable)
        for name, part in schema["properties"].items()
        if not FOR_APPS.items() <= part.items()
    }
    return {"type": "object", "properties": fields}


def _iterate_fields_for_apps(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        if FOR_APPS.items() <= part.items():
            yield path + name
        else:
            yield from _iterate_fields_for_apps(part, f"{path}{name}.")
    for part in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from _iterate_fields_for_apps(part, path)


def put_own_fields_first(names: Iterable[str]) -> list[str]:
    """Sort a tool's own fields before the common ones, because models fill in fields in order."""
    common = [*PagedArguments.model_fields, *IdempotentArguments.model_fields]
    return sorted(names, key=lambda name: common.index(name) if name in common else -1)


def _is_never_empty(field: dict[str, Any]) -> bool:
    """Return whether a field takes texts or lists, none of them empty, and null removes nothing."""
    options = [{**option, **field} for option in field.get("anyOf", [{}])]
    values = [option for option in options if option.get("type") in {"string", "array"}]
    removes_with_null = _is_nullable(field) and not _has_null_as_default(field)
    return bool(values) and not removes_with_null and not any(map(_may_be_empty, values))


def _may_be_empty(option: dict[str, Any]) -> bool:
    if option["type"] == "array":
        return not option.get("minItems")
    return _FORMS.isdisjoint(option)


def _is_nullable(field: dict[str, Any]) -> bool:
    return _NULL in field.get("anyOf", ())


def _has_null_as_default(field: dict[str, Any]) -> bool:
    return _is_nullable(field) and "default" in field


def _keep_keywords(
    node: Any,
    keywords: frozenset[str],
    drops_null: Callable[[dict[str, Any]], bool] = lambda _: False,
) -> Any:
    """Shorten a schema, because every conversation pays for its length.

    Args:
        keywords: The keywords to keep. Objects are published as open.
        drops_null: Returns whether to publish a field without null.
    """
    if isinstance(node, list):
        return [_keep_keywords(item, keywords, drops_null) for item in node]
    if not isinstance(node, dict):
        return node
    field = _make_not_null(node) if drops_null(node) else node
    undescribed = keywords - {"description"}
    return {
        key: {
            name: _keep_keywords(part, undescribed if name in _PLAIN else keywords, drops_null)
            for name, part in value.items()
        }
        if key == "properties"
        else _keep_keywords(value, keywords, drops_null)
        for key, value in field.items()
        if key in keywords and not (key == "additionalProperties" and isinstance(value, bool))
    }


def _make_not_null(field: dict[str, Any]) -> dict[str, Any]:
    options = [option for option in field["anyOf"] if option != _NULL]
    schema = options[0] if len(options) == 1 else {"anyOf": options}
    return {**schema, **{key: value for key, value in field.items() if key != "anyOf"}}
