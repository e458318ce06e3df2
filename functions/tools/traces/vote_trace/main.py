"""The Cloud Function of `vote_trace`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.traces.vote_trace.tool import TOOL

handle = serve(TOOL)
