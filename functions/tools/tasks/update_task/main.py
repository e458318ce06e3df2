"""The Cloud Function of `update_task`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.tasks.update_task.tool import TOOL

handle = serve(TOOL)
