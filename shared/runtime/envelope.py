"""An answer in a family's own shape: `{success, data, error}` in place of a bare result.

A tool returns its data and raises its errors as every tool does; the gateway, which also refuses
calls by itself, puts both into the shape that the family's users know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from shared.runtime.messages import WireError


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What a family of tools calls the errors.

    Attributes:
        codes: Carrel's code to the family's.
        fields: Where all that is wrong with the arguments is one field, or several of one code: the
            field's name to the family's code.
        other: The family's code for whatever is left.
    """

    codes: dict[str, str]
    fields: dict[str, str]
    other: str

    def schema(self, data: dict[str, Any]) -> dict[str, Any]:
        """The JSON schema of answers, from that of the data."""
        codes = sorted({*self.codes.values(), *self.fields.values(), self.other})
        error = {
            "type": "object",
            "properties": {
                "code": {"type": "string", "enum": codes, "description": "What is wrong."},
                "message": {"type": "string", "description": "The same in words: what to do next."},
                "details": {
                    "type": "object",
                    "additionalProperties": True,
                    "description": "One entry per offending field, or what else helps.",
                },
                "retry_after": {"type": "number", "description": "Seconds to wait, if that helps."},
            },
            "required": ["code", "message", "details"],
        }
        nothing = {"type": "null"}
        properties = {
            "success": {"type": "boolean", "description": "Whether it was done."},
            "data": {"anyOf": [data, nothing], "description": "The result, if there is one."},
            "error": {
                "anyOf": [error, nothing],
                "description": "What went wrong, if anything.",
            },
        }
        return {"type": "object", "properties": properties, "required": list(properties)}

    def answer(self, data: dict[str, Any]) -> dict[str, Any]:
        """An answer that tells of success."""
        return {"success": True, "data": data, "error": None}

    def refusal(self, error: WireError) -> dict[str, Any]:
        """An answer that tells of an error."""
        return {"success": False, "data": None, "error": self.error(error)}

    def error(self, error: WireError) -> dict[str, Any]:
        """An error by the family's code; where that says less than Carrel's, `reason` says it."""
        told = error.model_dump(exclude_none=True)
        code = self._code(error)
        more = {"reason": error.code} if code == self.other else {}
        return told | {"code": code, "details": error.details | more}

    def _code(self, error: WireError) -> str:
        if error.code == InvalidInput.code:
            named = {self.fields.get(name.rpartition(".")[2]) for name in error.details}
            if len(named) == 1 and (code := named.pop()):
                return code
        return self.codes.get(error.code, self.other)
