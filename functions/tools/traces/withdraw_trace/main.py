"""The Cloud Function of `withdraw_trace`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.traces.withdraw_trace.tool import TOOL

handle = serve(TOOL)
