"""Detects tokens by their own format, regardless of the context.

A token is a secret that a service, its issuer, generates in a recognizable format. The formats are
those of detect-secrets' plugins, and `_MORE_FORMATS` for other issuers. Only the plugins' regular
expressions are used, because the scanner of detect-secrets changes global settings during a scan,
skips lines with a "pragma: allowlist" comment, and sends detected tokens to their issuers. The
following plugins are not used:

- keywords: takes quadratic time in the length of a line (7 s for 8,000 characters), and finds 4 of
  45 secrets in context;
- entropy (two plugins): find 21,800 "secrets" in 152,000 lines of well-known packages;
- OpenAI, npm and JSON web tokens: take quadratic time, so this module has its own expressions;
- passwords in URLs, and private keys: find less than the detectors in `credentials`, and raise more
  false alarms;
- public IP addresses: mistakes version numbers for addresses;
- Telegram: mistakes a digest after a time for a token.

All expressions here take linear time, because an unbounded repetition is possessive or cannot start
within itself.
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

from shared.screening.detection import Detection
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
"""The plugins whose formats are used, by the kind that findings name."""
_MORE_FORMATS: Final = {
    "1Password service account token": r"ops_eyJ[\w+/=-]{80,}+",
    "age key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "AI provider's key": r"(?:sk-(?:[a-z0-9]{1,12}-){0,3}|xai-|gsk_|pplx-|r8_|tgp_v1_)"
    r"(?=[\w-]{0,80}\d)[\w-]{32,}+",
    "Atlassian token": r"ATATT3[\w=-]{60,}+",
    "Azure client secret": r"[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])",
    "Carrel access key": r"carrel_[0-9a-f]{12}_[\w-]{43,}+",
    "Databricks token": r"dapi[0-9a-f]{32}(?:-\d)?",
    "DigitalOcean token": r"do[opr]_v1_[0-9a-f]{64}",
    "Discord webhook": r"https://discord(?:app)?\.com/api/webhooks/\d{17,20}/[\w-]{60,}+",
    "Docker Hub token": r"dckr_[op]at_[\w-]{27,}+",
    "Doppler token": r"dp\.(?:pt|st|ct|sa)\.[\w.-]{40,}+",
    "Figma token": r"fig[dor]_[\w-]{40,}+",
    "Fly.io token": r"(?:fo1_[\w-]{43}|fm[12][ar]?_[\w+/=-]{100,}+)",
    "GitHub fine-grained token": r"github_pat_\w{22}_\w{59}",
    "Google API key": r"AIza[\w-]{35}(?![\w-])",
    "Google OAuth client secret": r"GOCSPX-[\w-]{28}",
    "Google OAuth token": r"(?:ya29\.[\w.-]{30,}+|1//0[\w-]{40,}+)",
    "Grafana token": r"gl(?:sa_\w{32}_[0-9a-f]{8}|c_eyJ[\w+/=-]{60,}+)",
    "Hashicorp Vault token": r"hv[sbr]\.[\w-]{24,}+",
    "Hashicorp Terraform token": r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}+",
    "Heroku key": r"HRKU-[\w-]{36,}+",
    "Hugging Face token": r"(?:hf|api_org)_[A-Za-z0-9]{34}(?!\w)",
    "Linear key": r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}+",
    "Mailgun key": r"key-[0-9a-f]{32}(?!\w)",
    "Netlify token": r"nf[pcu]_[A-Za-z0-9]{36,}+",
    "New Relic key": r"NRAK-[A-Z0-9]{27}",
    "Notion token": r"ntn_\d{11}[A-Za-z0-9]{35}",
    "npm token": r"npm_[A-Za-z0-9]{36}(?!\w)",
    "PlanetScale password or token": r"pscale_(?:tkn|oauth|pw)_[\w.=-]{32,}+",
    "Postman key": r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    "Pulumi token": r"pul-[0-9a-f]{40}",
    "RubyGems key": r"rubygems_[0-9a-f]{48}",
    "Sentry token": r"sntr(?:ys_eyJ[\w+/=-]{60,}+|yu_[0-9a-f]{64})",
    "Shopify token": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "Slack token": r"(?:xapp-\d-[A-Z0-9]+-\d+-[0-9a-f]{32,}+|xoxe(?:\.xox[bp])?-\d-[\w-]{50,}+)",
    "Stripe webhook secret": r"whsec_[A-Za-z0-9+/=]{32,}+",
    "Supabase key": r"sb(?:p_[0-9a-f]{40}|_secret_[\w-]{31,}+)",
    "Telegram bot token": r"\d{8,10}:AA[\w-]{33}(?![\w-])",
}
"""Formats from the issuers' documentation, by kind. They must not contain capturing groups. Remove
a format once detect-secrets has a plugin for it; 1.5.0 is the last version that was checked."""
_DIGIT_REQUIRED: Final = frozenset({"Artifactory key", "Discord bot token", "IBM Cloud key"})
"""Kinds whose formats also match long names, so that only tokens with a digit are reported."""
_START: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Where a token may begin: not within a word, except after `\\n` in a quoted string."""
_PLUGIN_FORMATS: Final = tuple(
    (kind, pattern)
    for kind, plugin in _PLUGINS.items()
    for pattern in cast("Iterable[re.Pattern[str]]", plugin.denylist)
)
"""The formats of the plugins, each with its kind."""
_MORE_KINDS: Final = tuple(_MORE_FORMATS)
"""The kinds in the order of the groups of `_ANY_MORE_FORMAT`."""
_ANY_MORE_FORMAT: Final = re.compile(
    _START + "(?:" + "|".join(f"({pattern})" for pattern in _MORE_FORMATS.values()) + ")", re.ASCII
)
"""All of `_MORE_FORMATS` in one expression, which is searched faster than each by itself. Each
format is a group."""
_WEB_TOKEN: Final = re.compile(
    r"(?:(?<![\w-])|(?<=\\[nrt]))eyJ[\w-]{10,}+\.[\w-]{8,}+(?:\.[\w-]*+)?",
    re.ASCII,
)
"""A text in the format of a JSON web token: base64 of an object, a payload and a signature."""
_SAMPLE_PAYLOAD: Final = "eyJzdWIiOiIxMjM0NTY3ODkwI"
"""The beginning of the payload of the sample token on jwt.io."""


def detect_tokens(line: str) -> Iterator[Detection]:
    """Find tokens, keys and webhooks of known issuers, and JSON web tokens."""
    for kind, match in _find_issuer_matches(line):
        if is_placeholder(match[0]) or (kind in _DIGIT_REQUIRED and not _has_digit(match[0][2:])):
            continue
        yield Detection(kind, *match.span())
    for match in _WEB_TOKEN.finditer(line):
        if _SAMPLE_PAYLOAD not in match[0] and _is_web_token(match[0]):
            yield Detection("JSON web token", *match.span())


def _find_issuer_matches(line: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield each match of an issuer's format with its kind."""
    for kind, pattern in _PLUGIN_FORMATS:
        yield from ((kind, match) for match in pattern.finditer(line))
    for match in _ANY_MORE_FORMAT.finditer(line):
        # The only group that matched tells the format. Groups are numbered from 1.
        yield _MORE_KINDS[(match.lastindex or 1) - 1], match


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_web_token(text: str) -> bool:
    """Return whether the parts of a text decode to JSON, as those of a JSON web token do."""
    try:
        return JwtTokenDetector.is_formally_valid(text)
    except RecursionError:  # real claims are never nested so deeply
        return False
