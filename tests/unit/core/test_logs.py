"""A log entry says where an error happened, and contains no text that it did not write itself."""

from __future__ import annotations

import errno
import io
import json
import logging

from shared.core.log import _LineLogger

SECRET = "what-nobody-may-read"


def test_a_librarys_message_is_not_logged() -> None:
    output = io.StringIO()
    logger = logging.getLogger("a.library")
    handler = logging.StreamHandler(output)
    logger.addHandler(handler)
    try:
        int(SECRET)
    except ValueError:
        logger.exception("dropped %r", SECRET, stack_info=True, extra={"content": SECRET})
    finally:
        logger.removeHandler(handler)
    line = json.loads(output.getvalue())

    assert line["message"] == "library"
    assert line["logger"] == "a.library"
    assert line["severity"] == "ERROR"
    assert line["error"] == "ValueError"
    assert line["where"].startswith(__file__)
    assert SECRET not in output.getvalue()


class _FullDisk(io.StringIO):
    def write(self, _text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_loses_the_line_and_not_the_call() -> None:
    _LineLogger(_FullDisk()).info("a line")
