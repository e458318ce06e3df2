"""The Cloud Function of `get_decisions`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.extractions.get_decisions.tool import TOOL

handle = serve(TOOL)
