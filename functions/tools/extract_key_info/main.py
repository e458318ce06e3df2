"""The Cloud Function of `extract_key_info`."""

from shared.serving import serve  # isort: split

from functions.tools.extract_key_info.tool import TOOL

handle = serve(TOOL)
