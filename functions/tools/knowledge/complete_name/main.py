"""The Cloud Function of `complete_name`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.knowledge.complete_name.tool import TOOL

handle = serve(TOOL)
