"""The Cloud Function of `get_methodologies`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.extractions.get_methodologies.tool import TOOL

handle = serve(TOOL)
