"""The local gateway, where people sign in at the fake Google that FAKE_GOOGLE names."""

import os

import pytest

from functions.gateway.oauth import google

pytest.MonkeyPatch().setattr(google, "ISSUER", os.environ["FAKE_GOOGLE"])

from infra.local.gateway_main import handle  # noqa: E402 - it reads the issuer

__all__ = ["handle"]
