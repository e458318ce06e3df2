"""The Cloud Function of `get_trace`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.traces.get_trace.tool import TOOL

handle = serve(TOOL)
