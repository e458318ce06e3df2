"""The Cloud Function of `list_tasks`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.tasks.list_tasks.tool import TOOL

handle = serve(TOOL)
