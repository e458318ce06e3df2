"""The Cloud Function of `get_warnings`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.extractions.get_warnings.tool import TOOL

handle = serve(TOOL)
