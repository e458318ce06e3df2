"""The Cloud Function of `get_recent`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.knowledge.get_recent.tool import TOOL

handle = serve(TOOL)
