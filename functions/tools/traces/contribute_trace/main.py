"""The Cloud Function of `contribute_trace`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.traces.contribute_trace.tool import TOOL

handle = serve(TOOL)
