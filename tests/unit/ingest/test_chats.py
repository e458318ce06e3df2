"""Conversations with ChatGPT and Claude are read one at a time, with a passage for each message."""

import json
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from functions.jobs.ingest.readers import chats
from functions.jobs.ingest.readers.reading import explain_excess
from functions.jobs.ingest.readers.source_file import SourceFile
from shared.core.ids import IdKind, has_kind
from shared.knowledge.source import Source
from tests.support.epub_files import make_zip
from tests.support.source_files import (
    read_only_source,
    read_problems,
    read_sources,
    read_warnings,
    write_file,
)

CHAT_ID = "68a1b2c3-0000-4000-8000-123456789abc"


def make_node(
    key: str, parent: str | None, role: str, *parts: Any, children: tuple[str, ...], **fields: Any
) -> dict[str, Any]:
    """Return a ChatGPT message as a node of its conversation's tree."""
    message = {
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": 1717173713.5,
        "content": {"content_type": "text", "parts": parts},
        "recipient": "all",
        "metadata": {},
    }
    return {key: {"id": key, "message": message | fields, "parent": parent, "children": children}}


def make_chatgpt(**fields: Any) -> dict[str, Any]:
    """Return a conversation that has two versions of a question, tool calls and a picture."""
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://a"}
    mapping = {
        "root": {"id": "root", "message": None, "parent": None, "children": ["system"]},
        **make_node("system", "root", "system", "You are kind.", children=("ask", "again")),
        **make_node("again", "system", "user", "Is oak?", children=()),
        **make_node("ask", "system", "user", picture, "Is elm strong?", children=("tool",)),
        **make_node("tool", "ask", "assistant", "search()", children=("answer",), recipient="web"),
        **make_node(
            "answer", "tool", "assistant", "Yes \ue200cite\ue202turn0\ue201.", children=("hidden",)
        ),
        **make_node(
            "hidden",
            "answer",
            "user",
            "My profile.",
            children=(),
            metadata={"is_visually_hidden_from_conversation": True},
        ),
    }
    return {
        "title": "Woods",
        "create_time": 1717173713.1,
        "update_time": 1717173999,
        "mapping": mapping,
        "current_node": "answer",
        "conversation_id": CHAT_ID,
    } | fields


def make_claude(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "uuid": CHAT_ID,
        "name": "Knots",
        "created_at": "2024-05-31T16:41:53.000000Z",
        "account": {"uuid": "me"},
        "chat_messages": messages,
    } | fields


QUESTION = {
    "sender": "human",
    "text": "Which knot holds?",
    "content": [{"type": "text", "text": "Which knot holds?"}],
    "created_at": "2024-05-31T16:42:00.000000Z",
    "attachments": [{"file_name": "a.txt", "extracted_content": "【1 File】"}],
}
ANSWER = {
    "sender": "assistant",
    "text": "This block is not supported.\n\nA bowline.",
    "content": [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "tool_use", "name": "search", "input": {}},
        {"type": "text", "text": "A bowline."},
    ],
    "created_at": "2024-05-31T16:43:00.000000Z",
}


def write_chats(folder: Path, *conversations: Any, name: str = "conversations.json") -> Path:
    return write_file(folder, name, json.dumps(conversations))


def test_a_conversation_with_chatgpt_is_a_source(tmp_path: Path) -> None:
    source = read_only_source(write_chats(tmp_path, make_chatgpt()))
    assert (source.title, source.origin, source.category) == ("Woods", "chatgpt", "conversation")
    assert source.source_url == f"https://chatgpt.com/c/{CHAT_ID}"
    assert has_kind(source.source_id, IdKind.EXPORT)
    assert source.adds_only
    assert [section.text for section in source.sections] == [
        "You: Is elm strong?",
        "Assistant: Yes .",
        "You: Is oak?",
    ]
    moment = datetime(2024, 5, 31, 16, 41, 53, 500_000, tzinfo=UTC)
    assert {section.written_at for section in source.sections} == {moment}


def test_a_conversation_with_claude_is_a_source(tmp_path: Path) -> None:
    source = read_only_source(write_chats(tmp_path, make_claude(QUESTION, ANSWER)))
    assert (source.title, source.origin, source.category) == ("Knots", "claude", "conversation")
    assert source.source_url == f"https://claude.ai/chat/{CHAT_ID}"
    assert [(section.text, section.written_at) for section in source.sections] == [
        (
            "You: Which knot holds?\n\na.txt:\n\n【1 File】",
            datetime(2024, 5, 31, 16, 42, tzinfo=UTC),
        ),
        ("Assistant: A bowline.", datetime(2024, 5, 31, 16, 43, tzinfo=UTC)),
    ]


def test_earlier_exports_have_fewer_fields(tmp_path: Path) -> None:
    """Claude's messages had only text, and ChatGPT's conversations had a different id field."""
    plain = {"sender": "human", "text": "Which knot holds?"}
    claude = make_claude(plain, name="", created_at=None)
    chatgpt = make_chatgpt(id=CHAT_ID, title=None, create_time=None)
    del chatgpt["conversation_id"]
    sources = read_sources(write_chats(tmp_path, claude, chatgpt))
    assert [source.title for source in sources] == ["Which knot holds?", "Is elm strong?"]
    assert sources[0].text == "You: Which knot holds?"
    assert sources[1].source_url == f"https://chatgpt.com/c/{CHAT_ID}"


def test_a_message_without_author_or_text_loses_only_itself(tmp_path: Path) -> None:
    chatgpt = make_chatgpt()
    chatgpt["mapping"]["again"]["message"] |= {"author": None, "content": None}
    chatgpt["mapping"]["ask"]["message"]["recipient"] = None
    claude = make_claude({"sender": "human", "content": []}, ANSWER, uuid="two")
    first, second = read_sources(write_chats(tmp_path, chatgpt, claude))
    assert [section.text for section in first.sections] == [
        "You: Is elm strong?",
        "Assistant: Yes .",
    ]
    assert second.text == "Assistant: A bowline."


def test_two_exports_of_a_conversation_are_one_source(tmp_path: Path) -> None:
    write_chats(tmp_path, make_claude(QUESTION), name="may/conversations.json")
    write_chats(tmp_path, make_claude(QUESTION, ANSWER), name="june/conversations.json")
    assert len({source.source_id for source in read_sources(tmp_path)}) == 1
    assert read_problems(tmp_path) == read_warnings(tmp_path) == []


def test_the_archive_of_an_export_is_read(tmp_path: Path) -> None:
    content = json.dumps([make_claude(QUESTION)])
    members = {"conversations.json": content, "users.json": "[]", "chat.html": "<p>"}
    write_file(tmp_path, "data-2024-05-31.zip", make_zip(members))
    assert read_only_source(tmp_path).text.startswith("You: Which knot holds?")


@pytest.mark.parametrize("messages", ["none", [{"sender": {}, "text": "Yes."}]])
def test_a_broken_conversation_loses_only_itself(tmp_path: Path, messages: Any) -> None:
    broken = make_claude(QUESTION, chat_messages=messages)
    path = write_chats(tmp_path, make_claude(QUESTION), broken, make_chatgpt(create_time="soon"))
    assert [source.title for source in read_sources(path)] == ["Knots", "Woods"]
    assert [name for name, _ in read_problems(path)] == ["conversations.json conversation 2"]
    [(_, warning)] = read_warnings(path)
    assert warning.startswith("create_time: “soon” is not an ISO 8601 date")


@pytest.mark.parametrize("cut", [1, 400])
def test_a_file_that_is_cut_off_says_where(tmp_path: Path, cut: int) -> None:
    content = json.dumps([make_claude(QUESTION), make_chatgpt()], indent=1)
    path = write_file(tmp_path, "conversations.json", content[: -cut - 1])
    assert read_sources(path)[0].title == "Knots"
    expected = [] if cut == 1 else ["is cut off or damaged after 1 conversations: export it again"]
    assert [reason for _, reason in read_problems(path)] == expected


def test_a_cycle_of_messages_ends(tmp_path: Path) -> None:
    chat = make_chatgpt()
    chat["mapping"]["answer"]["children"] = ["ask", "gone"]
    assert "Yes" in read_only_source(write_chats(tmp_path, chat)).text


def test_a_large_file_is_read_in_pieces(tmp_path: Path) -> None:
    """Reading ten megabytes takes no more memory than a few conversations."""
    count = 100
    text = json.dumps(make_claude(QUESTION | {"content": [], "text": "word " * 20_000}))
    path = write_file(tmp_path, "conversations.json", f"[{','.join([text] * count)}]")
    file = SourceFile(path, path.name, "x", path.name)
    tracemalloc.start()
    sources = (cast(Source, record.read()) for record in chats.read_records(file))
    assert sum(len(source.sections) for source in sources) == count
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


def test_a_large_file_is_not_refused_by_its_name() -> None:
    assert explain_excess("conversations.json", 900_000_000) is None
    assert explain_excess("conversations.json", 1_100_000_000) == "is larger than 1000 MB: split it"
