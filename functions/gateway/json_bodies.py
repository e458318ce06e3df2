r"""Checks of a JSON body before it is parsed: the number of its values, and half surrogate pairs.

A long text is one value. Millions of values in the same bytes take a thousand times as long to
parse and to check, and a hundred times the memory.

JavaScript's `text.slice(0, n)` may cut an emoji in two, and `JSON.stringify` then writes
`"\ud83d"`. No UTF-8 text holds that, so it can be neither stored nor passed on.

Each check takes time in proportion to the length of the body.
"""

from __future__ import annotations

import json
import re
from typing import Final

LARGE: Final = 256 * 1024
"""Bytes. A smaller body is parsed in milliseconds, whatever it holds."""
MAX_VALUES: Final = 50_000
"""Values in a larger body: it is to hold a long text, not many things."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def problem_in(body: bytes) -> str | None:
    """Say why a body is refused. One that is not JSON is left to its parser."""
    if len(body) > LARGE and count_values(body) > MAX_VALUES:
        return f"This request has more than {MAX_VALUES:,} values. Send fewer at once."
    if has_half_surrogate_pair(body):
        return (
            "A text in this request holds half of a surrogate pair: it was cut in the middle of an"
            " emoji or another character. Cut it between two characters, and send it again."
        )
    return None


def count_values(body: bytes) -> int:
    """Count lists, objects and values, roughly."""
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    strings = unescaped.count(b'"') // 2
    if strings > 2 * MAX_VALUES:  # half of them may be names in objects
        return strings
    outside_strings = b"".join(unescaped.split(b'"')[::2])
    return sum(map(outside_strings.count, (b"[", b"{", b",")))


def has_half_surrogate_pair(body: bytes) -> bool:
    """Tell whether a text or a name holds one: such JSON can be read, but not written as UTF-8."""
    if not _SURROGATE.search(body):
        return False
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False
