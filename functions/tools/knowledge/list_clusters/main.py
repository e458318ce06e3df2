"""The Cloud Function of `list_clusters`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.knowledge.list_clusters.tool import TOOL

handle = serve(TOOL)
