"""The arguments of `extract_key_info`, and the request that they describe.

Clients call a workspace a task: the argument `task_id` is the id of a workspace, and the scope
`task` is a whole workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, AliasChoices, Field, StringConstraints, model_validator

from shared.core.errors import InvalidInput
from shared.core.ids import safe_id
from shared.core.text_validation import is_blank, make_validation_error
from shared.runtime.pagination import MaxTokens
from shared.runtime.schemas import EMPTY_IS_ABSENT, DocumentId, IdempotentArguments
from shared.workspaces.model import content_id
from shared.workspaces.repository import Workspace

if TYPE_CHECKING:
    from shared.core.caller import Caller
    from shared.runtime.context import Context

DEFAULT_WORKSPACE_ID: Final = "default"
"""The id of the workspace if neither the call nor the caller's key names one."""
MAX_TEXT: Final = 16 * 1024 * 1024
"""The maximum length of a text, in characters. The limit on the size of requests is lower by
default, but can be raised."""


class SearchScope(StrEnum):
    """Which documents to search."""

    MATERIALS = "materials"
    TASK = "task"


def _require_not_blank(text: str) -> str:
    if is_blank(text):
        raise make_validation_error("must not be blank")
    return text


class In(IdempotentArguments):
    """A question, and the text to search."""

    query: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000),
        AfterValidator(_require_not_blank),
    ] = Field(description="The question.")
    materials: Annotated[str, StringConstraints(max_length=MAX_TEXT)] | None = Field(
        default=None,
        json_schema_extra=EMPTY_IS_ABSENT,
        description="The text to search. It is stored in the workspace, visible only to you.",
    )
    document: DocumentId | None = Field(
        default=None,
        description="Instead: the id of a stored text, from an earlier answer.",
    )
    top_k: int | None = Field(
        default=None,
        ge=1,
        le=20,
        description="Maximum number of passages.",
        validation_alias=AliasChoices("top_k", "topK"),
    )
    task_id: Annotated[str, StringConstraints(max_length=200)] | None = Field(
        default=None,
        json_schema_extra=EMPTY_IS_ABSENT,
        description="The workspace, a word or two.",
    )
    scope: SearchScope = Field(
        default=SearchScope.MATERIALS,
        description="task: search every text in the workspace.",
    )

    max_tokens: MaxTokens = None

    @model_validator(mode="before")
    @classmethod
    def _require_one_spelling(cls, arguments: Any) -> Any:
        if isinstance(arguments, dict) and {"top_k", "topK"} <= arguments.keys():
            raise make_validation_error("top_k and topK are one parameter: send one of them")
        return arguments


@dataclass(frozen=True, slots=True)
class ExtractionRequest:
    """The validated arguments of a call.

    Attributes:
        scope: Which documents to search.
        text: The text that the call sent to search, or None.
        document_id: The id of `text`, or of the stored text that the call named. None if the call
            named no text, and searches the whole workspace.
        workspace_id: The id of the workspace, which answers return as `task_id`.
    """

    query: str
    top_k: int
    max_tokens: int | None
    scope: SearchScope
    text: str | None
    document_id: str | None
    workspace_id: str
    workspace: Workspace


def validate_request(args: In, ctx: Context) -> ExtractionRequest:
    """Validate the arguments, and resolve the defaults. Reads nothing.

    Raises:
        InvalidInput: An argument is not valid, or contradicts another one.
    """
    text = args.materials
    if text is not None and args.document:
        raise make_argument_error(
            "document", "cannot be combined with materials: send one of the two"
        )
    if text is not None and not text.strip():
        raise make_argument_error("materials", "must not be blank")
    if text is None and not args.document and args.scope is not SearchScope.TASK:
        raise make_argument_error(
            "materials", "required unless you send document, or scope is task"
        )
    workspace_id = choose_workspace_id(args, ctx.caller)
    return ExtractionRequest(
        query=args.query,
        top_k=args.top_k or ctx.settings.extract_top_k,
        max_tokens=args.max_tokens,
        scope=args.scope,
        text=text,
        document_id=args.document if text is None else content_id(text),
        workspace_id=workspace_id,
        workspace=Workspace(ctx.database, str(ctx.caller.user_id), workspace_id),
    )


def make_argument_error(field: str, problem: str) -> InvalidInput:
    """Build the error for an argument that `extract_key_info` cannot accept."""
    message = f"extract_key_info was not run. {field}: {problem}. Correct this and call it again."
    return InvalidInput(message, details={field: problem})


def choose_workspace_id(args: In, caller: Caller) -> str:
    """Return the id of the workspace to use.

    The first of these that is set: the argument `task_id`, the workspace of the caller's key,
    `DEFAULT_WORKSPACE_ID`.

    Raises:
        InvalidInput: The argument is blank.
    """
    if args.task_id is None:
        return caller.task or DEFAULT_WORKSPACE_ID
    try:
        return safe_id(args.task_id)
    except ValueError:
        raise make_argument_error("task_id", "must not be blank") from None
