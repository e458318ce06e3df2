"""The Cloud Function of `get_patterns`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.extractions.get_patterns.tool import TOOL

handle = serve(TOOL)
