"""The order of bytes against a comparison of values that follows Firestore's documentation."""

import math
from fractions import Fraction
from typing import Any, Final

import pytest
from google.cloud.firestore import GeoPoint
from google.cloud.firestore_v1 import _helpers
from google.cloud.firestore_v1.types import Value
from google.cloud.firestore_v1.vector import Vector
from hypothesis import given
from hypothesis import strategies as st

from infra.local.embedded_firestore.protos import ValueProto
from infra.local.embedded_firestore.values import (
    decode_path,
    encode,
    encode_path,
    get_vector,
    invert,
    next_prefix,
)

EDGES: Final = st.sampled_from(
    [0, 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 0.0, -0.0, 1.0, 2.0**53, 2.0**63]
)
SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    EDGES,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=3),
    st.text(alphabet="a\0\x01\xff", max_size=3),
    st.binary(max_size=3),
    st.builds(GeoPoint, st.sampled_from([-90, 0, 45.5]), st.sampled_from([-180, 0, 1e-9])),
    st.builds(Vector, st.lists(st.sampled_from([-1.0, 0.0, 2.5]), min_size=1, max_size=3)),
)
VALUES: Final = st.recursive(
    SCALARS,
    lambda values: st.one_of(
        st.lists(values, max_size=3), st.dictionaries(st.text("ab\0", max_size=2), values)
    ),
    max_leaves=6,
)


def encode_python(value: object) -> bytes:
    return encode(Value.pb(_helpers.encode_value(value)))


def make_key(value: Any) -> tuple[Any, ...]:  # noqa: C901, PLR0911 - one for each type
    """Return what Python compares as Firestore compares the value."""
    match value:
        case None:
            return (-1,)
        case bool():
            return (0, value)
        case float() if math.isnan(value):
            return (1, 0)
        case int() | float():
            infinity = 0 if not isinstance(value, float) or math.isfinite(value) else value
            return (1, 1, infinity, Fraction(0) if infinity else Fraction(value))
        case str():
            return (2, value.encode())
        case bytes():
            return (3, value)
        case GeoPoint():
            return (4, value.latitude, value.longitude)
        case Vector():
            return (6, len(value), *value)
        case dict():
            members = sorted((name.encode(), member) for name, member in value.items())
            return (7, *((1, name, make_key(member)) for name, member in members))
        case list():
            return (5, *map(make_key, value))
    raise TypeError(value)


def compare(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


@given(VALUES, VALUES)
def test_bytes_are_ordered_as_values_are(left: object, right: object) -> None:
    first, second = encode_python(left), encode_python(right)
    assert compare(make_key(left), make_key(right)) == compare(first, second)
    assert compare(first, second) == compare(invert(second), invert(first))
    assert first == second or not second.startswith(first)


PATHS: Final = st.lists(
    st.text("a0\0\x01\x02\xff~", min_size=1, max_size=3), min_size=1, max_size=4
)


@given(PATHS, PATHS)
def test_paths_are_ordered_by_segment_and_decoded(left: list[str], right: list[str]) -> None:
    segments = [[segment.encode() for segment in path] for path in (left, right)]
    paths = ["/".join(path) for path in (left, right)]
    assert compare(*segments) == compare(*map(encode_path, paths))
    assert paths == [decode_path(encode_path(path)) for path in paths]


@given(st.binary(min_size=1, max_size=4), st.binary(max_size=4))
def test_the_next_prefix_ends_a_range(prefix: bytes, rest: bytes) -> None:
    following = next_prefix(prefix)
    assert not following or prefix + rest < following
    assert not following or not following.startswith(prefix)


@pytest.mark.parametrize("components", [[], [0.0, -2.5], [1, 0, 2.5], [1, -2]])
def test_a_vector_may_have_integers(components: list[float]) -> None:
    value = ValueProto()
    value.map_value.fields["__type__"].string_value = "__vector__"
    members = value.map_value.fields["value"].array_value.values
    for component in components:
        kind = "integer_value" if isinstance(component, int) else "double_value"
        members.add(**{kind: component})
    assert get_vector(value) == components
