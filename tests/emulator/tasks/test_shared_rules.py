"""The tools of the to-do list share their rules: who may call them, and the codes of errors.

An envelope translates errors into the codes of this family of tools.
"""

import pytest

from shared.core.caller import Caller
from shared.core.errors import Unauthorized
from shared.core.meter import Meter
from shared.runtime.context import App
from shared.tasks.schemas import ENVELOPE, ItemError, get_own_tasks
from tests.support.tool_calls import find_tool

NAMES = ("add_task", "complete_task", "delete_task", "list_tasks", "restore_task", "update_task")


async def test_anonymous_caller_is_refused(app: App) -> None:
    with pytest.raises(Unauthorized):
        get_own_tasks(app.context(Caller(), Meter()))


def test_all_task_tools_share_one_envelope() -> None:
    """Items of a batch have its codes, too, and the fields with their own code exist."""
    tools = [find_tool(name) for name in NAMES]
    assert all(tool.envelope is ENVELOPE for tool in tools)
    assert ENVELOPE.fields.keys() <= {name for tool in tools for name in tool.input.model_fields}
    codes = {*ENVELOPE.codes.values(), *ENVELOPE.fields.values(), ENVELOPE.other}
    assert codes == set(ItemError.model_json_schema()["properties"]["code"]["enum"])
