"""The Cloud Function of `extract_key_info`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.workspaces.extract_key_info.tool import TOOL

handle = serve(TOOL)
