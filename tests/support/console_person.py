"""A person who uses the console of a running gateway in a browser without scripts."""

from typing import Final, Self
from urllib.parse import urlsplit

import httpx2
from lxml.html import HtmlElement

from tests.support.console_app import parse_page, read_texts, select

SESSION_COOKIE: Final = "carrel-session"


class Person:
    """A person with a browser that stores cookies, follows redirects and runs no scripts.

    Attributes:
        http: The HTTP client of the browser.
        page: The open page.
        response: The response with the open page.
    """

    def __init__(self, url: str) -> None:
        """Open a browser for the gateway at this URL."""
        # No connection stays open, so nobody has to close the browser.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self.http = httpx2.Client(base_url=url, timeout=60, limits=limits)
        self.page: HtmlElement
        self.response: httpx2.Response

    def open(self, path: str) -> Self:
        """Open a page, and follow redirects."""
        return self.follow(self.http.get(path))

    def submit(self, button: str, **values: str) -> Self:
        """Fill in the form with the button of this label, and press the button."""
        [element] = [
            element
            for element in self.page.iter("button")
            if element.get("aria-label", element.text_content().strip()) == button
        ]
        form = next(element.iterancestors("form"))
        fields = {name: value or "" for name, value in form.form_values()} | values
        if element.get("name"):
            fields[element.get("name")] = element.get("value")
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(str(self.response.url)))
        action = str(self.response.url.join(form.get("action") or ""))
        return self.follow(self.http.post(action, data=fields, headers={"origin": origin}))

    def sign_in(self, key: str, path: str = "/") -> Self:
        """Open a page, and sign in with a key, since the page requires it."""
        return self.open(path).submit("Sign in", key=key)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of elements of the page."""
        return read_texts(self.page, selector)

    def select(self, selector: str) -> list[HtmlElement]:
        """Find elements of the page."""
        return select(self.page, selector)

    @property
    def buttons(self) -> list[str]:
        """The labels of all buttons of the page."""
        return self.texts("button")

    @property
    def path(self) -> str:
        """The path and query of the page."""
        return self.response.url.raw_path.decode()

    def follow(self, response: httpx2.Response) -> Self:
        """Follow the redirects of a response, and open the page to which they lead."""
        while response.is_redirect:
            response = self.http.get(str(response.url.join(response.headers["location"])))
        self.response = response
        self.page = parse_page(response)
        return self
