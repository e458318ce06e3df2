"""The Cloud Function of `add_task`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.tasks.add_task.tool import TOOL

handle = serve(TOOL)
