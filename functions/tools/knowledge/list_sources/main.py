"""The Cloud Function of `list_sources`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.knowledge.list_sources.tool import TOOL

handle = serve(TOOL)
