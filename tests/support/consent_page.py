"""Submits the consent page as a person does who pastes a key and presses a button."""

from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

import httpx2

from tests.support.sign_in_app import parse_hidden_fields

_FOUND, _SEE_OTHER = 302, 303


@dataclass(frozen=True, slots=True)
class ConsentResult:
    """The redirect with which the consent page answers.

    Attributes:
        address: The URL of the program that asked for consent.
        answer: The parameters in the URL's query.
    """

    address: str
    answer: dict[str, str]


def submit_decision(
    authorize: str, key: str, decision: Literal["allow", "deny"] = "allow"
) -> ConsentResult:
    """Submit a decision on the consent page.

    Args:
        authorize: The authorization URL to which the program sends the browser.
        key: The access key of the person.
        decision: The button to press.
    """
    with httpx2.Client(timeout=60) as browser:
        redirect = browser.get(authorize)
        assert redirect.status_code == _FOUND, redirect.text
        page = browser.get(redirect.headers["location"])
        form = {**parse_hidden_fields(page), "key": key, "decision": decision}
        response = browser.post(str(page.url.join("/consent")), data=form)
        assert response.status_code == _SEE_OTHER, response.text
    address = response.headers["location"]
    return ConsentResult(address, dict(parse_qsl(urlsplit(address).query)))
