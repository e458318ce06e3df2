"""Passwords that a command of the shell is given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from shared.screening.credentials import NAMES
from shared.screening.finding import Place
from shared.screening.placeholders import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

_VALUE: Final = r"[\"']?([^\s\"'<>{}\[\]$]{1,300})"
_BETWEEN: Final = r"\b[^|;&]{0,200}? "
_BASIC: Final = r"[ =]?[\"']?[^\s:\"']{1,64}:([^\s\"']{1,200})"
_LOGIN: Final = r"(?:docker|podman|helm registry|skopeo|oc|az|cf|argocd) login"
_OPTION: Final = re.compile(r"--[A-Za-z]| -[pawPuU]|\bpass:|\bsudo\b|\blogin\b")
"""What every form below has, quickly searched for."""
_LONG: Final = re.compile(
    rf"(?:--[\w-]{{0,20}}(?:{NAMES})|\blogin \S{{1,64}}+ password) {{1,4}}{_VALUE}", re.IGNORECASE
)
"""`--db-password ...`, and what stands in a .netrc."""
_SHORT: Final = tuple(
    re.compile(form)
    for form in (
        rf"\b(?:mysql|mariadb)[\w-]{{0,12}}{_BETWEEN}-p{_VALUE}",
        rf"\b(?:{_LOGIN}|mongo\w{{0,7}}|sshpass|twine upload){_BETWEEN}-p[ =]?{_VALUE}",
        rf"\bredis-cli{_BETWEEN}-a ?{_VALUE}",
        rf"\bldap\w{{3,7}}{_BETWEEN}-w ?{_VALUE}",
        rf"\b(?:sqlcmd|bcp|(?:un)?zip){_BETWEEN}-P ?{_VALUE}",
        rf"\b7z[ar]?{_BETWEEN}-p{_VALUE}",
        rf"\bopenssl{_BETWEEN}(?:-pass(?:in|out)? )?pass:{_VALUE}",
        rf"\becho (?:-n )?{_VALUE}[\"']? ?\| ?sudo\b",
        rf"\bcurl\b[^|;]{{0,300}}? (?:-u|--user|-U|--proxy-user){_BASIC}",
        rf"\bhttps?{_BETWEEN}(?:-a|--auth){_BASIC}",
    )
)
"""Options of one letter mean something else to every command: `docker run -p 8080:80`."""


def commands_in(line: str) -> Iterator[Place]:
    """Find passwords among the arguments of commands."""
    if not _OPTION.search(line):
        return
    for form in (_LONG, *_SHORT):
        for match in form.finditer(line):
            if is_secret(match[1]):
                yield Place("password in a command", *match.span())
