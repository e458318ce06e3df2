"""Examples of the tools that change the knowledge base."""

from typing import Final

from tests.examples.base import FORGOTTEN_NOTES, KNEAD, LINK, NOTE, NOTE_TEXT, OWNER
from tests.examples.example import (
    BLANK,
    INVISIBLE_IN_LINE,
    INVISIBLE_IN_PROSE,
    INVISIBLE_TEXTS,
    NOT_AN_ID,
    Cost,
    Example,
)

_TOKEN: Final = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
"""An access token, in two parts so that no scanner reports this file."""
_OWNERS: Final = "carrel accounts role ben owner"
_SECRET: Final = {"GitHub token": (_TOKEN,)}
_SECRET_TAG: Final = {"GitHub token": ([_TOKEN],), INVISIBLE_IN_LINE: (["a\nb"],)}
_NEW_LINK: Final = {"url": "https://boats.example/sloops", "title": "Sloops", "tags": ["sea"]}
_NEW_PAGE: Final = {"url": "https://boats.example/sloops", "page": "<p>Sloops."}
_NEW_NOTE: Final = {"text": "Salt slows the yeast."}

EXAMPLES: Final = {
    "save_note": Example(
        arguments=_NEW_NOTE,
        lengths={"text": 8_000, "title": 200},
        counts={"tags": 20},
        wrong={
            "text": {
                BLANK: (" ",),
                "required for a new note": (None,),
                "carrel ingest PATH": ("x" * 8_001,),
                INVISIBLE_IN_PROSE: INVISIBLE_TEXTS,
                **_SECRET,
            },
            "title": _SECRET,
            "tags": _SECRET_TAG,
            "url": {
                NOT_AN_ID: ("file:///etc",),
                "at most 2000 characters": ("https://" + "x" * 2_000,),
            },
        },
        contradictions=(
            ({}, "text", "required for a new note"),
            (_NEW_NOTE | {"revision": 1}, "revision", "only with source_id"),
            (_NEW_NOTE | {"restore_revision": 1}, "restore_revision", "only with source_id"),
            (_NEW_NOTE | {"source_id": "note-1"}, "revision", "get_source returns it"),
            ({"source_id": "note-1", "revision": 1}, "source_id", "without anything to change"),
            (
                {"source_id": "a", "revision": 2, "restore_revision": 1, "text": NOTE_TEXT},
                "restore_revision",
                "give either",
            ),
        ),
        missing={"about": "search_kb"},
        change={"title": "Salt"},
        costs=(
            ({"text": "Salt slows the yeast.", "about": KNEAD}, Cost(3, 4, 14)),
            ({"source_id": NOTE, "revision": 1, "text": "Oats."}, Cost(3, 4, 23)),
        ),
        undo_leaves=frozenset({"revision", "/note_revisions/", "forgotten/", "forgotten_sources/"}),
        refused=(
            (
                {"source_id": NOTE, "revision": 1, "text": "Mine."},
                "FORBIDDEN",
                "only they and the owner",
            ),
        ),
    ),
    "edit_source": Example(
        arguments={"source_id": "baking", "revision": 0, "title": "Loaves"},
        caller=OWNER,
        accepted={"author": ("",), "tags": ([],)},
        ranges={"revision": (0, 1_000_000)},
        lengths={"title": 200, "author": 500},
        counts={"tags": 200},
        wrong={
            "title": {BLANK: (" \u3164 ",), **_SECRET},  # a letter without a glyph
            "author": _SECRET,
            "tags": _SECRET_TAG,
            "reset": {"'title', 'author' or 'tags'": (["date"],)},
        },
        contradictions=(
            (
                {"source_id": "baking", "revision": 0},
                "",
                "at least one of title, author, tags and reset",
            ),
            (
                {"source_id": "baking", "revision": 0, "title": "A", "reset": ["title"]},
                "",
                "not as both",
            ),
            ({"revision": 0, "tags": []}, "", "Pass either source_id"),
        ),
        missing={"source_id": "list_sources"},
        change={"author": ""},
        costs=(
            ({"source_id": "baking", "revision": 0, "title": "Loaves"}, Cost(2, 4, 5)),
            ({"chunk_id": KNEAD, "revision": 0, "tags": []}, Cost(2, 2, 3)),
        ),
        undo_leaves=frozenset({"revision", "pending", "content_hash", "rewriting"}),
        refused=(
            ({"source_id": "baking", "revision": 0, "title": "Mine"}, "FORBIDDEN", _OWNERS),
            ({"source_id": NOTE, "revision": 1, "title": "Mine"}, "FORBIDDEN", _OWNERS),
            ({"chunk_id": KNEAD, "revision": 0, "tags": []}, "FORBIDDEN", _OWNERS),
        ),
    ),
    "forget": Example(
        arguments={"source_id": "sailing"},
        caller=OWNER,
        lengths={"reason": 500},
        contradictions=(
            ({}, "", "either chunk_id"),
            ({"chunk_id": "a", "source_id": "b"}, "", "either chunk_id"),
        ),
        missing={"source_id": "list_sources"},
        change={"reason": "Outdated."},
        costs=(({"chunk_id": KNEAD}, Cost(4, 29, 32)), ({"source_id": "sailing"}, Cost(6, 5, 10))),
        undo_leaves=frozenset({"content_hash", "forgotten_sources/"}),
        refused=(
            ({"source_id": "baking"}, "FORBIDDEN", _OWNERS),
            ({"chunk_id": KNEAD}, "FORBIDDEN", _OWNERS),
            ({"source_id": NOTE}, "FORBIDDEN", _OWNERS),
            ({"source_id": FORGOTTEN_NOTES[0], "forgotten": False}, "NOT_FOUND", "never forgotten"),
        ),
    ),
    "save_link": Example(
        arguments=_NEW_LINK,
        lengths={"title": 200},
        counts={"tags": 20},
        wrong={
            "url": {
                "not a public web page": (
                    *("http://localhost:8080/", "http://127.0.0.1/", "file:///etc/passwd", " "),
                    "http://169.254.169.254/computeMetadata/v1/",
                    *("https://anna:secret@client.example/", "client.example"),
                ),
                "at least 1 character": ("",),
                "at most 2000 characters": ("https://example.com/" + "x" * 2_000,),
                "GitHub token": (f"https://example.com/?key={_TOKEN}",),
            },
            "title": _SECRET,
            "tags": _SECRET_TAG,
        },
        change={"title": "Yawls"},
        costs=((_NEW_LINK, Cost(2, 3, 2)),),
        undo_leaves=frozenset(),
        refused=(({"url": LINK, "cancel": True}, "FORBIDDEN", "only they and an owner"),),
    ),
    "save_page": Example(
        arguments=_NEW_PAGE,
        lengths={"page": 8_000_000},
        wrong={
            "url": {
                "not the address of a web page": ("file:///etc/passwd", "http://localhost/", " "),
                "at least 1 character": ("",),
                "at most 2000 characters": ("https://example.com/" + "x" * 2_000,),
                "GitHub token": (f"https://example.com/?key={_TOKEN}",),
            },
        },
        change={"page": "<p>Yawls."},
        costs=((_NEW_PAGE, Cost(2, 3, 2)),),
        undo_leaves=frozenset({"page"}),
        refused=((_NEW_PAGE | {"url": LINK}, "FORBIDDEN", "Someone else"),),
    ),
    "fetch_links": Example(
        arguments={},
        caller=OWNER,
        ranges={"limit": (1, 200)},
        costs=(({}, Cost(2, 1, 1)),),
        change={"limit": 1},
    ),
}
