"""The protobuf classes behind Google's types, which are quicker than the types."""

from __future__ import annotations

from typing import Any, Final

from google.cloud.firestore_v1 import types

DocumentProto: Final[Any] = types.Document.pb()
"""A stored document has fields only: name and times stand beside it."""
