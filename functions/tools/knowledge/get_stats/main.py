"""The Cloud Function of `get_stats`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.knowledge.get_stats.tool import TOOL

handle = serve(TOOL)
