"""Paths, masks and transforms, apart from what the contract tests say of all databases."""

from typing import Any

import pytest
from google.cloud.firestore_v1 import _helpers
from google.cloud.firestore_v1.types import Document, DocumentTransform
from hypothesis import given
from hypothesis import strategies as st

from infra.local.embedded_firestore.documents import (
    apply_mask,
    apply_transform,
    format_path,
    parse_path,
)
from infra.local.embedded_firestore.errors import FirestoreError
from infra.local.embedded_firestore.protos import ValueProto


def make_document(values: dict[str, Any]) -> Any:
    return Document.pb(Document(fields=_helpers.encode_dict(values)))


def to_dict(document: Any) -> dict[str, Any]:
    decoded: Any = _helpers.decode_dict(document.fields, None)
    return dict(decoded)


@given(st.lists(st.text("a1.`\\ é", min_size=1), min_size=1, max_size=3).map(tuple))
def test_paths_are_read_as_they_are_written(path: tuple[str, ...]) -> None:
    assert path == parse_path(format_path(path))


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "a`b`", "`a`b"])
def test_rejects_what_is_no_path(text: str) -> None:
    with pytest.raises(FirestoreError):
        parse_path(text)


@pytest.mark.parametrize(
    ("old", "new", "mask", "expected"),
    [
        ({"a": 1}, {"b": 2}, ["b"], {"a": 1, "b": 2}),
        ({"a": 1}, {"b": 2}, [], {"a": 1}),
        ({"a": 1, "b": 1}, {}, ["a", "none.deep"], {"b": 1}),
        ({"m": {"x": 1, "y": 2}}, {"m": {"x": 3}}, ["m.x"], {"m": {"x": 3, "y": 2}}),
        ({"m": {"x": 1, "y": 2}}, {"m": {"x": 3}}, ["m"], {"m": {"x": 3}}),
        ({"m": {"x": 1}}, {}, ["m.x"], {"m": {}}),
        ({"m": 1}, {}, ["m.x"], {"m": 1}),
        ({"m": 1}, {"m": {"x": 3}}, ["m.x"], {"m": {"x": 3}}),
    ],
)
def test_a_mask_sets_and_deletes(
    old: dict[str, Any], new: dict[str, Any], mask: list[str], expected: dict[str, Any]
) -> None:
    document = make_document(old)
    apply_mask(document.fields, make_document(new).fields, map(parse_path, mask))
    assert expected == to_dict(document)


def transform(old: dict[str, Any], path: str, **kind: Any) -> tuple[dict[str, Any], Any]:
    """Apply a transform, and return the document and the result."""
    document = make_document(old)
    transforms = DocumentTransform.FieldTransform
    proto = transforms.pb(transforms(field_path=path, **kind))
    result = apply_transform(document.fields, parse_path(path), proto, None)
    return to_dict(document), _helpers.decode_value(result, None)


def number(value: float) -> Any:
    return (
        ValueProto(integer_value=value)
        if isinstance(value, int)
        else ValueProto(double_value=value)
    )


@pytest.mark.parametrize(
    ("kind", "old", "operand", "expected"),
    [
        ("increment", 1, 2, 3),
        ("increment", 2**63 - 1, 5, 2**63 - 1),
        ("increment", -(2**63), -5, -(2**63)),
        ("increment", 1, 0.5, 1.5),
        ("increment", "a", 2, 2),
        ("maximum", 1, 3, 3),
        ("maximum", 3, 1, 3),
        ("maximum", 1, 1.0, 1),  # of equal numbers, the stored one stays
        ("minimum", 1, 3, 1),
        ("minimum", 3, 1, 1),
    ],
)
def test_a_transform_answers_the_new_number(
    kind: str, old: Any, operand: float, expected: float
) -> None:
    document, result = transform({"n": old}, "n", **{kind: number(operand)})
    assert ({"n": expected}, expected) == (document, result)
    assert type(document["n"]) is type(expected)


def test_transforms_make_the_maps_on_their_path() -> None:
    assert ({"m": {"n": 2}}, 2) == transform({"m": "text"}, "m.n", increment=number(2))
