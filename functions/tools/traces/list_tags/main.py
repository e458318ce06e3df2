"""The Cloud Function of `list_tags`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.traces.list_tags.tool import TOOL

handle = serve(TOOL)
