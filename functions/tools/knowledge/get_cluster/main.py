"""The Cloud Function of `get_cluster`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.knowledge.get_cluster.tool import TOOL

handle = serve(TOOL)
