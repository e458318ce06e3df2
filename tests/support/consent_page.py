"""A person at the consent page, who pastes a key and presses a button."""

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
class ConsentResult:
    """The final redirect of the browser.

    Attributes:
        address: The redirect's URL.
        answer: The parameters in the URL's query.
    """

    address: str
    answer: dict[str, str]


def submit_decision(
    authorize: str, key: str, decision: Literal["allow", "deny"] = "allow"
) -> ConsentResult:
    """Open the URL to which a program sends the browser, and submit a decision on the page."""
    with httpx2.Client(timeout=60) as browser:
        redirect = browser.get(authorize)
        assert redirect.status_code == _FOUND, redirect.text
        page = browser.get(redirect.headers["location"])
        fields = {name: unescape(value) for name, value in _HIDDEN.findall(page.text)}
        form = {**fields, "key": key, "decision": decision}
        response = browser.post(str(page.url.join("/consent")), data=form)
        assert response.status_code == _SEE_OTHER, response.text
    address = response.headers["location"]
    return ConsentResult(address, dict(parse_qsl(urlsplit(address).query)))
