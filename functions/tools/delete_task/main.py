"""The Cloud Function of `delete_task`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.delete_task.tool import TOOL

handle = serve(TOOL)
