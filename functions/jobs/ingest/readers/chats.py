"""Reads the conversations that ChatGPT and Claude export: `conversations.json`.

A file may have hundreds of megabytes, so its conversations are parsed one at a time. What an
assistant said is not what its owner read: a search finds conversations only if it asks for their
category (`shared.index.on_request`).
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import AliasChoices, Field

from functions.jobs.ingest.readers.fields import (
    ExternalModel,
    Line,
    Timestamp,
    Title,
    clean,
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
    from collections.abc import Iterator
    from datetime import datetime
    from typing import TextIO

MAX_BYTES: Final = 1_000 * MEGABYTE
"""The maximum size of a file. It is read piece by piece, but in the cloud it is in memory."""
MAX_CONVERSATION: Final = 64 * MEGABYTE
"""The maximum length of a conversation, in characters. A longer one is taken for damage."""
_PIECE: Final = 1_000_000
"""The number of characters that are read at once."""
_GAP: Final = re.compile(r"[\s,\[\]]*")
"""What precedes a conversation in the list."""
_MARKS: Final = re.compile(r"\ue200[^\ue201]*\ue201|【\d[^【】]{0,60}】|[\ue200-\ue206]")
"""References to search results in an answer of ChatGPT, which its page shows as links."""
_OWN_KEYS: Final = re.compile(r'"mapping"\s*:\s*\{|"chat_messages"\s*:\s*\[')
_PROGRAMS: Final = (("chatgpt", "https://chatgpt.com/c/"), ("claude", "https://claude.ai/chat/"))
_SPEAKERS: Final = {"user": "You", "human": "You", "assistant": "Assistant"}
_MAX_TITLE: Final = 80
"""The length to which the first message is cut to be a title, in characters."""


class _Message(NamedTuple):
    role: str | None
    text: str
    date: datetime | None = None


class _Author(ExternalModel):
    role: Line = None


class _Content(ExternalModel):
    """A text is in parts, beside pictures and files; of code, searches and thoughts it is not."""

    content_type: Line = None
    parts: tuple[Any, ...] | None = None
    text: Any = None
    type: Line = None


class _ChatGptMessage(ExternalModel):
    author: _Author = _Author()
    content: _Content | None = None
    create_time: Timestamp = None
    recipient: Line = None
    metadata: dict[str, Any] | None = None


class _Node(ExternalModel):
    message: _ChatGptMessage | None = None
    parent: Line = None
    children: tuple[str, ...] = ()


class _Chat(ExternalModel):
    id: Line = Field(default=None, validation_alias=AliasChoices("conversation_id", "id", "uuid"))
    title: Title = Field(default=None, validation_alias=AliasChoices("title", "name"))
    create_time: Timestamp = Field(
        default=None, validation_alias=AliasChoices("create_time", "created_at")
    )

    def list_messages(self) -> Iterator[_Message]:
        raise NotImplementedError


class _ChatGpt(_Chat):
    """A conversation of ChatGPT: a tree, as a question may have been asked in several versions."""

    mapping: dict[str, _Node]

    def list_messages(self) -> Iterator[_Message]:
        """Yield the messages, each after the one that it follows."""
        pending = [key for key, node in self.mapping.items() if node.parent not in self.mapping]
        pending.reverse()
        visited: set[str] = set()
        while pending:
            key = pending.pop()
            node = self.mapping.get(key)
            if node is None or key in visited:
                continue
            visited.add(key)
            pending += reversed(node.children)
            message = node.message
            if message and message.content and message.recipient in {None, "all"}:
                is_hidden = (message.metadata or {}).get("is_visually_hidden_from_conversation")
                parts = () if is_hidden else message.content.parts or ()
                text = "\n\n".join(filter(None, map(_get_text, parts)))
                yield _Message(message.author.role, _MARKS.sub("", text), message.create_time)


class _ClaudeMessage(ExternalModel):
    sender: Line = None
    text: Any = None
    content: tuple[_Content, ...] | None = None
    created_at: Timestamp = None


class _Claude(_Chat):
    """A conversation of Claude."""

    chat_messages: tuple[_ClaudeMessage, ...]

    def list_messages(self) -> Iterator[_Message]:
        """Yield the messages. The parts of an answer leave out its thoughts and tools."""
        for message in self.chat_messages:
            parts = [part.text for part in message.content or () if part.type == "text"]
            texts = map(_get_text, parts if any(parts) else [message.text])
            yield _Message(message.sender, "\n\n".join(filter(None, texts)), message.created_at)


def _get_text(part: Any) -> str:
    """Return a part of a message if it is text, or the transcript of what was said."""
    text = part.get("text") if isinstance(part, dict) else part
    return text.strip() if isinstance(text, str) else ""


def recognizes(beginning: str) -> bool:
    """Return whether a JSON file that begins like this has conversations."""
    return bool(_OWN_KEYS.search(beginning))


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the conversations of a file.

    Raises:
        Unreadable: The file is too large, or is not JSON from here on.
    """
    if reason := describe_excess(file.path.stat().st_size, MAX_BYTES):
        raise Unreadable(reason)
    with file.path.open(encoding="utf-8-sig") as stream:
        yield from read_stream(file.name, stream)


def read_stream(name: str, stream: TextIO) -> Iterator[Record]:
    """Yield the conversations of an open file with this name; see `read_records`."""
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
            # As much again: so no conversation is parsed too often.
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
    optional = {"create_time", "created_at", "metadata", "title", "name"}
    chat, faults = validate(_Claude if is_claude else _ChatGpt, raw, optional)
    messages = [
        message._replace(text=clean(message.text).strip())
        for message in chat.list_messages()
        if message.role in _SPEAKERS
    ]
    messages = [message for message in messages if message.text]
    program, address = _PROGRAMS[is_claude]
    beginning = messages[0].text if messages else ""
    return Source(
        source_id=derive_source_id(program, chat.id or beginning),
        title=to_headline(chat.title or "") or to_headline(beginning, _MAX_TITLE) or "Untitled",
        origin=program,
        category=on_request.CATEGORY,
        source_url=f"{address}{chat.id}" if chat.id else None,
        sections=tuple(
            Section(
                f"{_SPEAKERS[message.role or '']}: {message.text}",
                written_at=message.date or chat.create_time,
            )
            for message in messages
        ),
        adds_only=True,
        warnings=describe_faults(faults),
    )


FORMAT: Final = Format(
    name="Conversations with ChatGPT or Claude",
    extensions=(".json",),
    read=read_records,
    max_bytes=MAX_BYTES,
    recognizes=recognizes,
    fields={
        "title, name": "the title of a source of the category `conversation`, which a search finds"
        " only with this category as a filter, by its words; if missing, the first message",
        "messages": "passages, which begin with `You:` or `Assistant:`, with their dates; those of"
        " all versions of a question",
        "id, uuid": "the id of the source, and its address",
        "thoughts, tools, system messages, pictures, files": "left out",
    },
    example='[{"uuid": "7", "name": "On tests", "created_at": "2024-05-31T16:41:53Z",'
    ' "chat_messages": [{"sender": "human", "text": "Is a flaky test worse than none?"},'
    ' {"sender": "assistant", "text": "Mostly."}]}]\n',
    identity=Identity.ORIGIN,
    adds_only=True,
)
