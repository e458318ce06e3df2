"""The Cloud Function of `amend_trace`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.traces.amend_trace.tool import TOOL

handle = serve(TOOL)
