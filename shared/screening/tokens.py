"""Detects tokens by their own format, regardless of the context."""

from __future__ import annotations

import json
import re
from typing import Final

from shared.core.base64url import from_base64url
from shared.screening.detection import Rule
from shared.screening.placeholders import is_placeholder

_FORMATS: Final = {
    "1Password service account token": r"ops_eyJ[\w+/=-]{80,}+",
    "age key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "AI provider's key": r"(?:sk-(?:[a-z0-9]{1,12}-){0,3}|xai-|gsk_|pplx-|r8_|tgp_v1_)"
    r"(?=[\w-]{0,80}\d)[\w-]{32,}+",
    "Artifactory key": r"AKC(?=[A-Za-z]{0,80}\d)[A-Za-z0-9]{10,}+"
    r"|AP[0-9A-F](?=[A-Za-z]{0,80}\d)[A-Za-z0-9]{30,}+",
    "Atlassian token": r"ATATT3[\w=-]{60,}+",
    "AWS access key": r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}",
    "AWS secret key": r"(?i:aws.{0,20}?(?:key|pass|pw|token).{0,20}?)[\"'=: ][\w/+]{40}(?![\w/+=])",
    "Azure client secret": r"[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])",
    "Carrel access key": r"carrel_[0-9a-f]{12}_[\w-]{43,}+",
    "Databricks token": r"dapi[0-9a-f]{32}(?:-\d)?",
    "DigitalOcean token": r"do[opr]_v1_[0-9a-f]{64}",
    "Discord bot token": r"[MNO](?=[\w.-]{0,60}\d)[\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}+",
    "Discord webhook": r"https://discord(?:app)?\.com/api/webhooks/\d{17,20}/[\w-]{60,}+",
    "Docker Hub token": r"dckr_[op]at_[\w-]{27,}+",
    "Doppler token": r"dp\.(?:pt|st|ct|sa)\.[\w.-]{40,}+",
    "Figma token": r"fig[dor]_[\w-]{40,}+",
    "Fly.io token": r"(?:fo1_[\w-]{43}|fm[12][ar]?_[\w+/=-]{100,}+)",
    "GitHub fine-grained token": r"github_pat_\w{22}_\w{59}",
    "GitHub token": r"gh[pousr]_[A-Za-z0-9_]{36}",
    "GitLab token": r"(?:gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-|GR1348941)[\w-]{20,}+",
    "Google API key": r"AIza[\w-]{35}(?![\w-])",
    "Google OAuth client secret": r"GOCSPX-[\w-]{28}",
    "Google OAuth token": r"(?:ya29\.[\w.-]{30,}+|1//0[\w-]{40,}+)",
    "Grafana token": r"gl(?:sa_\w{32}_[0-9a-f]{8}|c_eyJ[\w+/=-]{60,}+)",
    "Hashicorp Terraform token": r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}+",
    "Hashicorp Vault token": r"hv[sbr]\.[\w-]{24,}+",
    "Heroku key": r"HRKU-[\w-]{36,}+",
    "Hugging Face token": r"(?:hf|api_org)_[A-Za-z0-9]{34}(?!\w)",
    "Linear key": r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}+",
    "Mailchimp key": r"[0-9a-z]{32}-us\d{1,2}",
    "Mailgun key": r"key-[0-9a-f]{32}(?!\w)",
    "Netlify token": r"nf[pcu]_[A-Za-z0-9]{36,}+",
    "New Relic key": r"NRAK-[A-Z0-9]{27}",
    "Notion token": r"ntn_\d{11}[A-Za-z0-9]{35}",
    "npm token": r"npm_[A-Za-z0-9]{36}(?!\w)",
    "PlanetScale password or token": r"pscale_(?:tkn|oauth|pw)_[\w.=-]{32,}+",
    "Postman key": r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    "Pulumi token": r"pul-[0-9a-f]{40}",
    "PyPI token": r"pypi-AgE[\w-]{70,}+",
    "RubyGems key": r"rubygems_[0-9a-f]{48}",
    "SendGrid key": r"SG\.[\w-]{22}\.[\w-]{43}",
    "Sentry token": r"sntr(?:ys_eyJ[\w+/=-]{60,}+|yu_[0-9a-f]{64})",
    "Shopify token": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "Slack token or webhook": r"(?:xox[abporse]-(?:\d{1,20}-){1,6}[A-Za-z0-9]+"
    r"|xapp-\d-[A-Z0-9]+-\d+-[0-9a-f]{32,}+|xoxe(?:\.xox[bp])?-\d-[\w-]{50,}+"
    r"|https://hooks\.slack\.com/services/T\w+/B\w+/\w+)",
    "Square OAuth secret": r"sq0csp-[\w-]{43}",
    "Stripe key": r"[rs]k_live_[0-9a-zA-Z]{24}",
    "Stripe webhook secret": r"whsec_[A-Za-z0-9+/=]{32,}+",
    "Supabase key": r"sb(?:p_[0-9a-f]{40}|_secret_[\w-]{31,}+)",
    "Telegram bot token": r"\d{8,10}:AA[\w-]{33}(?![\w-])",
    "Twilio key": r"(?:AC|SK)[0-9a-f]{32}(?!\w)",
}
"""Formats from the issuers' documentation, by the kind that findings name. They take linear time:
an unbounded repetition is possessive or cannot start within itself. They have no groups."""
_KINDS: Final = tuple(_FORMATS)
_START: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Where a token may begin: not within a word, except after `\\n` in a quoted string."""
_FORMAT: Final = re.compile(f"{_START}(?:({')|('.join(_FORMATS.values())}))", re.ASCII)
"""All formats, each as a group: searched together, they take less time."""
_WEB_TOKEN: Final = re.compile(
    r"(?:(?<![\w-])|(?<=\\[nrt]))eyJ[\w-]{10,}+\.[\w-]{8,}+(?:\.[\w-]*+)?", re.ASCII
)
"""A text in the format of a JSON web token: base64 of an object, a payload and a signature."""
_SAMPLE_PAYLOAD: Final = "eyJzdWIiOiIxMjM0NTY3ODkwI"
"""The beginning of the payload of the sample token on jwt.io."""


def _classify_format(match: re.Match[str]) -> str | None:
    return None if is_placeholder(match[0]) else _KINDS[(match.lastindex or 1) - 1]


def _classify_web_token(match: re.Match[str]) -> str | None:
    try:
        for part in match[0].split(".")[:2]:
            json.loads(from_base64url(part))
    except (ValueError, RecursionError):  # real claims are never nested so deeply
        return None
    return None if _SAMPLE_PAYLOAD in match[0] else "JSON web token"


TOKENS: Final = (Rule(_classify_format, _FORMAT), Rule(_classify_web_token, _WEB_TOKEN))
