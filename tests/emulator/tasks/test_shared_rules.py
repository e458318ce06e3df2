"""What the tools of the to-do list share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared.core.caller import Caller
from shared.core.errors import Unauthorized
from shared.core.meter import Meter
from shared.tasks.schemas import ENVELOPE, ItemError, get_own_tasks
from tests.support.tool_calls import tool_named

if TYPE_CHECKING:
    from shared.runtime.context import App

VERBS = ("add", "complete", "delete", "restore", "update")
TOOLS = [tool_named(name) for name in ("list_tasks", *(f"{verb}_task" for verb in VERBS))]


@pytest.mark.anyio
async def test_nobody_has_no_tasks(app: App) -> None:
    with pytest.raises(Unauthorized):
        get_own_tasks(app.context(Caller(), Meter()))


def test_all_six_answer_in_one_shape() -> None:
    assert [ENVELOPE] * 6 == [tool.envelope for tool in TOOLS]


def test_an_item_fails_with_the_same_codes_as_a_call() -> None:
    declared = ENVELOPE.schema({})["properties"]["error"]["anyOf"][0]["properties"]["code"]
    assert declared["enum"] == ItemError.model_json_schema()["properties"]["code"]["enum"]


def test_every_field_with_a_code_of_its_own_is_some_tools() -> None:
    fields = {name for tool in TOOLS for name in tool.input.model_fields}
    assert ENVELOPE.fields.keys() <= fields
