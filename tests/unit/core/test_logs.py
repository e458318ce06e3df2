"""What goes into the log, and what stays out."""

from __future__ import annotations

import io
import json
import logging

import shared.core.log  # noqa: F401 - what it does to `logging` is what is tested

SECRET = "what-nobody-may-read"


def test_of_what_a_library_logs_only_the_place_is_kept() -> None:
    written = io.StringIO()
    logger = logging.getLogger("a.library")
    handler = logging.StreamHandler(written)
    logger.addHandler(handler)
    try:
        int(SECRET)
    except ValueError:
        logger.exception("dropped %r", SECRET, stack_info=True, extra={"said": SECRET})
    finally:
        logger.removeHandler(handler)
    line = json.loads(written.getvalue())
    assert ("library", "a.library", "ERROR", "ValueError") == (
        line["message"],
        line["logger"],
        line["severity"],
        line["error"],
    )
    assert line["where"].startswith(__file__)
    assert SECRET not in written.getvalue()
