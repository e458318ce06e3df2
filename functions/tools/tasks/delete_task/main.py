"""The Cloud Function of `delete_task`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.tasks.delete_task.tool import TOOL

handle = serve(TOOL)
