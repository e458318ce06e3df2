"""A person who signs in: they read the page, paste their key, and press a button."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from typing import Final, Literal
from urllib.parse import parse_qsl, urlsplit

import httpx2

_HIDDEN: Final = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')
_FOUND, _SEE_OTHER = 302, 303


@dataclass(frozen=True, slots=True)
class Returned:
    """Where the browser was sent in the end.

    Attributes:
        address: The whole address.
        answer: The parameters in its query.
    """

    address: str
    answer: dict[str, str]


def decide(authorize: str, key: str, decision: Literal["allow", "deny"] = "allow") -> Returned:
    """Go where a program sends the browser, and decide there."""
    with httpx2.Client(timeout=60) as browser:
        sent = browser.get(authorize)
        assert _FOUND == sent.status_code, sent.text
        page = browser.get(sent.headers["location"])
        fields = {name: unescape(value) for name, value in _HIDDEN.findall(page.text)}
        answer = {**fields, "key": key, "decision": decision}
        done = browser.post(str(page.url.join("/consent")), data=answer)
        assert _SEE_OTHER == done.status_code, done.text
    address = done.headers["location"]
    return Returned(address, dict(parse_qsl(urlsplit(address).query)))
