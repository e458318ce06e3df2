"""The Cloud Function of `complete_task`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.tasks.complete_task.tool import TOOL

handle = serve(TOOL)
