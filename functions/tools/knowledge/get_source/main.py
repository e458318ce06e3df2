"""The Cloud Function of `get_source`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.knowledge.get_source.tool import TOOL

handle = serve(TOOL)
