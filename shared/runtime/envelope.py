"""Answers of the form `{success, data, error}`, for tool families that publish that shape.

A tool of such a family returns its data and raises its errors like any other tool. The gateway,
which also rejects calls itself, puts both into the envelope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from shared.runtime.messages import WireError


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The error codes of a family of tools.

    Attributes:
        codes: The family's code by Carrel's code.
        fields: The family's code by field name, for invalid arguments that share one code.
        other: The family's code for all other errors.
    """

    codes: dict[str, str]
    fields: dict[str, str]
    other: str

    def build_schema(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON schema of answers whose data has the given schema."""
        error = {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "details": {"type": "object"},
                "retry_after": {"type": "number"},
            },
        }
        null = {"type": "null"}
        properties = {
            "success": {"type": "boolean"},
            "data": {"anyOf": [data, null]},
            "error": {"anyOf": [error, null]},
        }
        return {"type": "object", "properties": properties}

    def wrap_result(self, data: dict[str, Any]) -> dict[str, Any]:
        """Wrap the data of a call that succeeded."""
        return {"success": True, "data": data, "error": None}

    def wrap_error(self, error: WireError) -> dict[str, Any]:
        """Wrap the error of a call that failed."""
        return {"success": False, "data": None, "error": self.translate_error(error)}

    def translate_error(self, error: WireError) -> dict[str, Any]:
        """Translate an error. Where the family's code is `other`, `reason` has Carrel's code."""
        fields = error.model_dump(exclude_none=True)
        code = self._choose_code(error)
        reason = {"reason": error.code} if code == self.other else {}
        return fields | {"code": code, "details": error.details | reason}

    def _choose_code(self, error: WireError) -> str:
        if error.code == InvalidInput.code:
            codes = {self.fields.get(name.rpartition(".")[2]) for name in error.details}
            if len(codes) == 1 and (code := codes.pop()):
                return code
        return self.codes.get(error.code, self.other)
