"""The forms of tokens that detect-secrets 1.5.0 does not know, from their issuers' documentation.

A row goes when a release of detect-secrets has its plugin. No form has a group that captures.
"""

from __future__ import annotations

from typing import Final

FORMS: Final = {
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
