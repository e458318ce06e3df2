"""The Cloud Function of `search_traces`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.traces.search_traces.tool import TOOL

handle = serve(TOOL)
