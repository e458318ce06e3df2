"""Answers of the form `{success, data, error}`, for families of tools that publish this shape.

A tool of such a family returns results and raises errors like any other tool. The gateway wraps
both in the envelope, because it also rejects calls itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from shared.runtime.messages import WireError


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Wraps the answers of a family of tools, and translates errors to the family's codes.

    Attributes:
        codes: The family's codes by Carrel's codes.
        fields: The family's codes for invalid arguments, by field name. Such a code is used if it
            is the code of all invalid fields.
        other: The family's code for all other errors.
    """

    codes: dict[str, str]
    fields: dict[str, str]
    other: str

    def build_schema(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON schema of the family's answers, given the schema of their data."""
        null = {"type": "null"}
        properties = {
            "success": {"type": "boolean"},
            "data": {"anyOf": [data, null]},
            "error": {"anyOf": [{"type": "object"}, null]},
        }
        return {"type": "object", "properties": properties}

    def wrap_result(self, data: dict[str, Any]) -> dict[str, Any]:
        """Wrap the data of a call that succeeded."""
        return {"success": True, "data": data, "error": None}

    def wrap_error(self, error: WireError) -> dict[str, Any]:
        """Wrap the error of a call that failed."""
        return {"success": False, "data": None, "error": self.translate_error(error)}

    def translate_error(self, error: WireError) -> dict[str, Any]:
        """Return an error with the family's code.

        If the code is `other`, `reason` in the details is Carrel's code.
        """
        error_fields = error.model_dump(exclude_none=True)
        code = self._choose_code(error)
        reason = {"reason": error.code} if code == self.other else {}
        return error_fields | {"code": code, "details": error.details | reason}

    def _choose_code(self, error: WireError) -> str:
        if error.code == InvalidInput.code:
            codes = {self.fields.get(name.rpartition(".")[2]) for name in error.details}
            if len(codes) == 1 and (code := codes.pop()):
                return code
        return self.codes.get(error.code, self.other)
