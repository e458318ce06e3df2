"""The Cloud Function of `search_kb`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.knowledge.search_kb.tool import TOOL

handle = serve(TOOL)
