"""The Cloud Function of `list_topics`."""

from shared.runtime.serving import serve  # isort: split

from functions.tools.extractions.list_topics.tool import TOOL

handle = serve(TOOL)
