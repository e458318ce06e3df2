"""Tags of traces, as they are compared: lower case, without white space."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import StringConstraints

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable


MOST: Final = 20
"""Tags of one trace."""


MOST_SENT: Final = 100
"""Tags as somebody writes them, of which several may turn out to be the same."""


_FORM: Final = "a tag consists of letters a to z, digits and . _ -"


_TAG: Final = re.compile(r"[a-z0-9._-]+")


LONGEST: Final = 60
"""Characters of a tag."""


SentTag = Annotated[str, StringConstraints(max_length=LONGEST)]
"""A tag as somebody writes it."""


def normal_tag(sent: str) -> str:
    """How a tag, or its beginning, is compared: `Google Cloud` is `google-cloud`.

    What is too long for a tag, or becomes so, is cut where it still is.
    """
    return "-".join(unicodedata.normalize("NFKC", sent).casefold().split())[: LONGEST + 1]


def normal_tags(sent: Iterable[str]) -> tuple[str, ...]:
    """Tags as they are stored, each once, in their order.

    Raises:
        InvalidInput: One of them is no tag, or there are too many.
    """
    tags: dict[str, None] = {}
    wrong: dict[str, str] = {}
    for place, text in enumerate(sent):
        tag = normal_tag(text)
        tags[tag] = None
        if not _TAG.fullmatch(tag) or len(tag) > LONGEST:
            wrong[f"tags.{place}"] = f"{_FORM}, at most {LONGEST} of them"
    if wrong:
        message = f"{_FORM.capitalize()}, such as cpp, c-sharp or python-3.12."
        raise InvalidInput(message, details=wrong)
    if len(tags) > MOST:
        message = f"There are {len(tags)} tags. Leave those that matter most, at most {MOST}."
        raise InvalidInput(message, details={"tags": f"more than {MOST}"})
    return tuple(tags)
