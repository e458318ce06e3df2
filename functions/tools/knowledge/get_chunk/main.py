"""The Cloud Function of `get_chunk`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.knowledge.get_chunk.tool import TOOL

handle = serve(TOOL)
