"""What `extract_key_info` is asked, and in which task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, AliasChoices, Field, StringConstraints, model_validator

from shared.core.errors import InvalidInput
from shared.core.ids import safe_id
from shared.core.text_validation import is_blank, wrong
from shared.runtime.schemas import Repeatable
from shared.workspaces.repository import Materials

if TYPE_CHECKING:
    from shared.core.caller import Caller
    from shared.runtime.context import Context

DEFAULT_TASK: Final = "default"
MOST_MATERIALS: Final = 16 * 1024 * 1024
"""Characters; unless this is set up otherwise, no request holds more."""

MaterialsId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$", max_length=32)]


class Scope(StrEnum):
    """In which materials to look."""

    MATERIALS = "materials"
    TASK = "task"


def _has_words(text: str) -> str:
    if is_blank(text):
        raise wrong("must hold more than white space")
    return text


class In(Repeatable):
    """A question, and where to look for the answer."""

    query: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000),
        AfterValidator(_has_words),
    ] = Field(description="The question that the passages should answer, in plain words.")
    materials: Annotated[str, StringConstraints(max_length=MOST_MATERIALS)] | None = Field(
        default=None,
        description="The text to look in, as it is: pages, transcripts, logs, code. Passages are"
        " parted by blank lines. It is stored under the task, for you alone.",
    )
    document: MaterialsId | None = Field(
        default=None,
        description="In place of materials that were brought to this task before: document of that"
        " answer.",
    )
    top_k: int | None = Field(
        default=None,
        ge=1,
        description="How many passages at most: 5 by default, 20 at most, unless this server was"
        " set up otherwise.",
        validation_alias=AliasChoices("top_k", "topK"),
    )
    task_id: Annotated[str, StringConstraints(max_length=200)] | None = Field(
        default=None,
        description="What the materials are for, in a word or two; materials of one task are"
        " searched together with scope task. By default, what stands before the @ of your key, else"
        f" {DEFAULT_TASK}.",
    )
    scope: Scope = Field(
        default=Scope.MATERIALS,
        description="materials: look in these materials alone. task: in everything that was brought"
        " to the task; materials are then optional.",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, arguments: Any) -> Any:
        if isinstance(arguments, dict) and {"top_k", "topK"} <= arguments.keys():
            raise wrong("top_k and topK are one parameter: send one of them")
        return arguments


@dataclass(frozen=True, slots=True)
class Request:
    """What a call asks, and of what.

    Attributes:
        query: The question.
        top_k: How many passages at most.
        scope: In which materials to look.
        task_id: The task that they belong to.
        store: The materials of that task.
    """

    query: str
    top_k: int
    scope: Scope
    task_id: str
    store: Materials


def read_request(args: In, ctx: Context) -> Request:
    """What a call asks: of the task of its arguments, else that of its credential.

    Raises:
        InvalidInput: An argument makes no sense.
    """
    if args.materials is not None and args.document:
        raise invalid("document", "stands in place of materials: send one of the two")
    if args.materials is not None and not args.materials.strip():
        raise invalid("materials", "must hold more than white space")
    if args.materials is None and not args.document and args.scope is not Scope.TASK:
        raise invalid("materials", "required where there is no document, and scope is materials")
    task_id = task_id_of(args, ctx.caller)
    store = Materials(ctx.database, str(ctx.caller.user_id), task_id)
    return Request(args.query, _top_k(args, ctx), args.scope, task_id, store)


def invalid(field: str, problem: str) -> InvalidInput:
    """An argument that `extract_key_info` cannot work with, and why."""
    message = f"extract_key_info was not run. {field}: {problem}. Correct this and call it again."
    return InvalidInput(message, details={field: problem})


def task_id_of(args: In, caller: Caller) -> str:
    """The task that a call works in.

    Raises:
        InvalidInput: Its name is blank.
    """
    if args.task_id is None:
        return caller.task or DEFAULT_TASK
    try:
        return safe_id(args.task_id)
    except ValueError:
        raise invalid("task_id", "must hold more than white space") from None


def _top_k(args: In, ctx: Context) -> int:
    limit = ctx.settings.extract_top_k_limit
    if args.top_k is None:
        return ctx.settings.extract_top_k
    if args.top_k > limit:
        raise invalid("top_k", f"must be at most {limit}")
    return args.top_k
