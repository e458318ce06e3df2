"""Secrets that their own form gives away, whatever stands around them.

The forms are those of detect-secrets' plugins, and of `issuers.py` what it does not know yet. The
plugins' expressions are used, not its scanner: that keeps its settings in one global object which
it changes while it scans, passes over lines that bear a "pragma: allowlist" comment, and verifies
what it finds by calling the issuer. Expressions hold no state: threads may share them. Left out
are its plugins

- for key words and for entropy: one takes the square of a line's length (4.4 s for 8,000
  characters), the other finds 21,800 "secrets" in 152,000 lines of well-known packages;
- for OpenAI, npm and JSON web tokens: they too take the square of the length; this module has the
  third and `issuers.py` the others;
- for passwords in URLs and for private keys: `credentials.py` and `private_keys.py` miss less;
- for public IP addresses (version numbers) and Telegram (digests after a time).

Every expression here takes time in proportion to the line: what repeats without bound is
possessive, or cannot start within itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from detect_secrets.plugins.artifactory import ArtifactoryDetector
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.cloudant import CloudantDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.ibm_cloud_iam import IbmCloudIamDetector
from detect_secrets.plugins.ibm_cos_hmac import IbmCosHmacDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.softlayer import SoftlayerDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

from shared.screening.finding import Place
from shared.screening.issuers import FORMS
from shared.screening.placeholders import is_placeholder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PLUGINS: Final = {
    "Artifactory key": ArtifactoryDetector,
    "AWS access key": AWSKeyDetector,
    "Azure storage key": AzureStorageKeyDetector,
    "Cloudant password": CloudantDetector,
    "Discord bot token": DiscordBotTokenDetector,
    "GitHub token": GitHubTokenDetector,
    "GitLab token": GitLabTokenDetector,
    "IBM Cloud key": IbmCloudIamDetector,
    "IBM Cloud storage key": IbmCosHmacDetector,
    "Mailchimp key": MailchimpDetector,
    "PyPI token": PypiTokenDetector,
    "SendGrid key": SendGridDetector,
    "Slack token or webhook": SlackDetector,
    "SoftLayer key": SoftlayerDetector,
    "Square OAuth secret": SquareOAuthDetector,
    "Stripe key": StripeDetector,
    "Twilio key": TwilioKeyDetector,
}
_TOO_WIDE: Final = frozenset({"Artifactory key", "Discord bot token", "IBM Cloud key"})
"""Forms that long names have too: a digit tells the difference."""
_START: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Where a token may begin: not within a word, but after `\\n` in a quoted string."""


_KNOWN: Final = tuple(
    (kind, form)
    for kind, plugin in _PLUGINS.items()
    for form in cast("Iterable[re.Pattern[str]]", plugin.denylist)
)
_KINDS: Final = tuple(FORMS)
_NEWER: Final = re.compile(
    _START + "(?:" + "|".join(f"({form})" for form in FORMS.values()) + ")", re.ASCII
)
_WEB_TOKEN: Final = re.compile(
    r"(?:(?<![\w-])|(?<=\\[nrt]))eyJ[\w-]{10,}+\.[\w-]{8,}+(?:\.[\w-]*+)?",
    re.ASCII,
)
_OF_THE_DOCUMENTATION: Final = "eyJzdWIiOiIxMjM0NTY3ODkwI"
"""How the payload of the example on jwt.io begins."""


def tokens_in(line: str) -> Iterator[Place]:
    """Find tokens, keys and webhooks of known issuers, and JSON web tokens."""
    for kind, match in _of_known_forms(line):
        if is_placeholder(match[0]) or (kind in _TOO_WIDE and not _has_digit(match[0][2:])):
            continue
        yield Place(kind, *match.span())
    for match in _WEB_TOKEN.finditer(line):
        if _OF_THE_DOCUMENTATION not in match[0] and _is_web_token(match[0]):
            yield Place("JSON web token", *match.span())


def _of_known_forms(line: str) -> Iterator[tuple[str, re.Match[str]]]:
    for kind, form in _KNOWN:
        yield from ((kind, match) for match in form.finditer(line))
    for match in _NEWER.finditer(line):
        yield _KINDS[(match.lastindex or 1) - 1], match


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_web_token(text: str) -> bool:
    try:
        return JwtTokenDetector.is_formally_valid(text)
    except RecursionError:  # JSON, nested as deep as nobody's claims are
        return False
