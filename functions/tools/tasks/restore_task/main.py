"""The Cloud Function of `restore_task`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.tasks.restore_task.tool import TOOL

handle = serve(TOOL)
