"""Requests to Gemini models, and their replies.

Importing Google's library is slow, so this module is imported only when a model is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.genai.types import (
    AutomaticFunctionCallingConfig,
    Content,
    GenerateContentConfig,
    GenerateContentResponse,
    GenerateContentResponseUsageMetadata,
    Part,
    ThinkingConfig,
    ThinkingLevel,
)

from shared.ai.answer_schema import build_answer_schema
from shared.ai.chat import Reply

if TYPE_CHECKING:
    from shared.ai.chat import Conversation

MAX_OUTPUT_TOKENS: Final = 8_192
"""A model may write at most this many tokens, thoughts included."""
_WITHHELD_REASONS: Final = {
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MODEL_ARMOR",
}
"""These finish reasons withhold an answer for its content. Retrying does not help."""
_CUT_OFF_REASON: Final = "MAX_TOKENS"
"""This finish reason marks an incomplete answer."""
_MIN_THINKING_OF_PRO: Final = 128
"""Gemini 2.5 Pro must have a thinking budget of at least this many tokens."""


def make_config(conversation: Conversation, model: str) -> GenerateContentConfig:
    """Make the configuration of requests, which is the same for every text."""
    return GenerateContentConfig(
        system_instruction=conversation.system,
        response_mime_type="application/json",
        response_json_schema=build_answer_schema(conversation.shape),
        max_output_tokens=MAX_OUTPUT_TOKENS,
        # Later models are tuned for their default temperature, and may loop at a lower one.
        temperature=0.0 if model.startswith("gemini-2") else None,
        thinking_config=_choose_thinking(model),
        automatic_function_calling=AutomaticFunctionCallingConfig(disable=True),
    )


def make_contents(conversation: Conversation) -> list[Content]:
    """Make the contents of a request: its turns."""
    return [
        Content(role=role, parts=[Part(text=text) for text in parts])
        for role, parts in conversation.turns
    ]


def parse_reply(response: GenerateContentResponse) -> Reply:
    """Parse a response, which may lack any of its parts."""
    candidate = response.candidates[0] if response.candidates else None
    content = candidate.content if candidate else None
    parts = (content.parts if content else None) or []
    reason = candidate.finish_reason.value if candidate and candidate.finish_reason else ""
    blocked = response.prompt_feedback and response.prompt_feedback.block_reason
    usage = response.usage_metadata or GenerateContentResponseUsageMetadata()
    return Reply(
        text="".join(part.text for part in parts if part.text and not part.thought),
        refused=bool(blocked) or reason in _WITHHELD_REASONS,
        cut_off=reason == _CUT_OFF_REASON,
        input_tokens=usage.prompt_token_count or 0,
        output_tokens=(usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
    )


def _choose_thinking(model: str) -> ThinkingConfig | None:
    """Choose the least thinking that a model supports, because thoughts are billed like answers.

    Gemini 2.5 accepts a budget, and later models a level. Flash-Lite thinks least by default.
    Earlier models, and those of other makers, accept neither.
    """
    if model.startswith("gemini-2.5"):
        return ThinkingConfig(thinking_budget=_MIN_THINKING_OF_PRO if "pro" in model else 0)
    if not model.startswith("gemini-") or model.startswith("gemini-2") or "lite" in model:
        return None
    return ThinkingConfig(thinking_level=ThinkingLevel.LOW)
