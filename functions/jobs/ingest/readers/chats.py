"""Reads the conversations that ChatGPT and Claude export: `conversations.json`.

A file may run to hundreds of megabytes, so its conversations are parsed one at a time. What an
assistant said is not what the user read, so a search finds conversations only if it asks for their
category (`shared.index.on_request`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic import AliasChoices, Field

from functions.jobs.ingest.readers.fields import (
    ExternalModel,
    Line,
    Timestamp,
    Title,
    clean,
    parse_timestamp,
    to_headline,
)
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.highlights import derive_source_id
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    describe_excess,
)
from functions.jobs.ingest.readers.validation import describe_faults, validate
from shared.index import on_request
from shared.knowledge.source import Section, Source

if TYPE_CHECKING:
    from datetime import datetime
    from typing import TextIO

MAX_BYTES: Final = 1_000 * MEGABYTE
"""The maximum size of a file. It is read in pieces, but in the cloud all of it is in memory."""
MAX_CONVERSATION: Final = 64 * MEGABYTE
"""The maximum length of a conversation, in characters. A longer one is treated as damaged."""
_PIECE: Final = 1_000_000
"""The number of characters that are read at once."""
_GAP: Final = re.compile(r"[\s,\[\]]*")
"""The white space and punctuation before a conversation in the list."""
_MARKS: Final = re.compile(r"\ue200[^\ue201]*\ue201|【\d[^【】]{0,60}】|[\ue200-\ue206]")
"""References to search results in ChatGPT's answers. Its page shows them as links."""
_OWN_KEYS: Final = re.compile(r'"mapping"\s*:\s*\{|"chat_messages"\s*:\s*\[')
_CHATGPT: Final = ("chatgpt", "https://chatgpt.com/c/")
_CLAUDE: Final = ("claude", "https://claude.ai/chat/")
"""The origin of a conversation, and the address before its id."""
_SPEAKERS: Final = {"user": "You", "human": "You", "assistant": "Assistant"}
_MAX_TITLE: Final = 80
"""The maximum length of a title taken from the first message, in characters."""
_Message = tuple[Any, Iterable[Any], Any]
"""The speaker, the parts and the date of a message, as in the file."""


class _Chat(ExternalModel):
    id: Line = Field(default=None, validation_alias=AliasChoices("conversation_id", "id", "uuid"))
    title: Title = Field(default=None, validation_alias=AliasChoices("title", "name"))
    create_time: Timestamp = Field(
        default=None, validation_alias=AliasChoices("create_time", "created_at")
    )


def recognizes(beginning: str) -> bool:
    """Return whether a JSON file that begins like this contains conversations."""
    return bool(_OWN_KEYS.search(beginning))


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the conversations of a file.

    Raises:
        Unreadable: The file is too large, or the rest of it is not JSON.
    """
    if reason := describe_excess(file.path.stat().st_size, MAX_BYTES):
        raise Unreadable(reason)
    with file.path.open(encoding="utf-8-sig") as stream:
        yield from read_stream(file.name, stream)


def read_stream(name: str, stream: TextIO) -> Iterator[Record]:
    """Yield the conversations of an open file. Raises what `read_records` raises."""
    for number, raw in enumerate(_iterate_values(stream), start=1):
        yield Record(f"{name} conversation {number}", partial(_make_source, raw))


def _iterate_values(stream: TextIO) -> Iterator[Any]:
    """Yield the values of a list, or the only value."""
    decoder = json.JSONDecoder()
    buffer, position, count = "", 0, 0
    while True:
        if gap := _GAP.match(buffer, position):
            position = gap.end()
        try:
            value, position = decoder.raw_decode(buffer, position)
        except RecursionError as error:
            raise Unreadable(f"is nested too deeply after {count:,} conversations") from error
        except ValueError as error:
            buffer, position = buffer[position:], 0
            # Double the buffer each time, so that a long conversation is reparsed only a few times.
            piece = _read_piece(stream, max(_PIECE, len(buffer)))
            if not piece and not buffer:
                return
            if not piece or len(buffer) > MAX_CONVERSATION:
                reason = f"is cut off or damaged after {count:,} conversations: export it again"
                raise Unreadable(reason) from error
            buffer += piece
        else:
            count += 1
            yield value


def _read_piece(stream: TextIO, length: int) -> str:
    try:
        return stream.read(length)
    except UnicodeDecodeError as error:
        raise Unreadable("is not UTF-8: export it again") from error


def _make_source(raw: Any) -> Source:
    is_claude = isinstance(raw, dict) and "chat_messages" in raw
    program, address = _CLAUDE if is_claude else _CHATGPT
    chat, faults = validate(_Chat, raw, {"create_time", "created_at", "title", "name"})
    try:
        messages = _list_claude(raw) if is_claude else _list_chatgpt(raw["mapping"])
        sections = [
            Section(f"{_SPEAKERS[role]}: {text}", written_at=_parse_date(date) or chat.create_time)
            for role, parts, date in messages
            if role in _SPEAKERS and (text := _join_parts(role, parts))
        ]
    except (AttributeError, LookupError, TypeError) as error:
        raise Unreadable("is not a conversation with ChatGPT or Claude") from error
    beginning = sections[0].text.partition(": ")[2] if sections else ""
    return Source(
        source_id=derive_source_id(program, chat.id or beginning),
        title=to_headline(chat.title or "") or to_headline(beginning, _MAX_TITLE) or "Untitled",
        origin=program,
        category=on_request.CATEGORY,
        source_url=f"{address}{chat.id}" if chat.id else None,
        sections=tuple(sections),
        adds_only=True,
        markdown=True,
        warnings=describe_faults(faults),
    )


def _list_claude(raw: dict[str, Any]) -> Iterator[_Message]:
    """Yield the messages, each with the texts of the files that were pasted into it.

    Only the text of an answer is kept, not its thoughts and tool calls.
    """
    for message in raw["chat_messages"]:
        parts = [part["text"] for part in message.get("content") or () if part["type"] == "text"]
        parts = parts or [message.get("text")]
        for file in message.get("attachments") or ():
            if text := file.get("extracted_content"):
                parts.append(f"{file.get('file_name') or 'Pasted text'}:\n\n{text}")
        yield message["sender"], parts, message.get("created_at")


def _list_chatgpt(mapping: dict[str, Any]) -> Iterator[_Message]:
    """Yield the messages, each after its parent.

    They form a tree, because a question may have been asked in several versions. Messages to tools
    and messages that the page hides are left out.
    """
    pending = [key for key, node in mapping.items() if node.get("parent") not in mapping][::-1]
    visited: set[str] = set()
    while pending:
        key = pending.pop()
        if key in visited or key not in mapping:
            continue
        visited.add(key)
        pending += reversed(mapping[key].get("children") or [])
        message = mapping[key].get("message") or {}
        is_hidden = (message.get("metadata") or {}).get("is_visually_hidden_from_conversation")
        if (message.get("recipient") or "all") == "all" and not is_hidden:
            parts = (message.get("content") or {}).get("parts") or []
            yield (message.get("author") or {}).get("role"), parts, message.get("create_time")


def _join_parts(role: str, parts: Iterable[Any]) -> str:
    """Join the parts that are text or transcripts of speech."""
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    text = "\n\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip())
    return clean(_MARKS.sub("", text) if role == "assistant" else text).strip()


def _parse_date(value: Any) -> datetime | None:
    with suppress(ValueError):
        return parse_timestamp(value)
    return None


FORMAT: Final = Format(
    name="Conversations with ChatGPT or Claude",
    extensions=(".json",),
    read=read_records,
    max_bytes=MAX_BYTES,
    recognizes=recognizes,
    fields={
        "title, name": "the title of a source in the category `conversation`; if missing, the first"
        " message. A search finds it only by words, and only if it filters by this category",
        "messages": "passages that begin with `You:` or `Assistant:`, with their dates, including"
        " all versions of a question, and the texts of attachments in Claude's export",
        "id, uuid": "the id and the address of the source",
        "thoughts, tools, system messages, pictures, other files": "left out",
    },
    example='[{"uuid": "7", "name": "On tests", "created_at": "2024-05-31T16:41:53Z",'
    ' "chat_messages": [{"sender": "human", "text": "Is a flaky test worse than none?"},'
    ' {"sender": "assistant", "text": "Mostly."}]}]\n',
    identity=Identity.ORIGIN,
    adds_only=True,
)
