"""Draws a terminal with a real answer for the README: `python -m infra.build.terminal_picture`.

The program runs `COMMAND` and draws the output to `docs/answer.svg`. `make run` must be serving the
sample knowledge base.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from html import escape
from typing import Final

from infra.build.discovery import ROOT

PICTURE: Final = ROOT / "docs" / "answer.svg"
COMMAND: Final = (
    '.venv/bin/carrel call search_kb \'{"query": "why do flaky tests hurt?", "limit": 1}\''
)
_COLUMNS: Final = 96
"""A line of the terminal has this many characters. Longer lines are wrapped."""
_LINE_HEIGHT: Final = 18
"""The height of a line, in pixels. The other sizes are in pixels, too."""
_WIDTH: Final = 820
_MARGIN: Final = 18
_FIRST_BASELINE: Final = _MARGIN + 12
"""The vertical position of the first line's baseline: the height of capitals below the margin."""
_KEY: Final = re.compile(r'^( *)("\w+")(:.*)$')
"""A line of indented JSON that begins with a key."""
_SVG: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>The answer of search_kb to a question about the sample knowledge base</title>
<rect width="100%" height="100%" rx="8" fill="#1b1f27"/>
<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" fill="#d7dce5"
 xml:space="preserve">
{lines}
</g>
</svg>
"""


def draw_terminal(command: str, output: str) -> str:
    """Return an SVG of a terminal with a command and its output."""
    lines = [f'<tspan fill="#8fd18a">$ {escape(command)}</tspan>', ""]
    for line in output.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wrapped = textwrap.wrap(
            line, _COLUMNS, subsequent_indent=indent, drop_whitespace=True, break_on_hyphens=False
        )
        lines.extend(_KEY.sub(_format_key, escape(part, quote=False)) for part in wrapped)
    rows = "\n".join(
        f'<text x="{_MARGIN}" y="{_FIRST_BASELINE + _LINE_HEIGHT * number}">{line}</text>'
        for number, line in enumerate(lines)
        if line
    )
    height = 2 * _MARGIN + _LINE_HEIGHT * len(lines)
    return _SVG.format(width=_WIDTH, height=height, lines=rows)


def _format_key(match: re.Match[str]) -> str:
    indent, key, rest = match.groups()
    return f'{indent}<tspan fill="#7fb7ff">{key}</tspan>{rest}'


def main() -> None:
    """Run the command and write the picture. `CARREL_URL` can name another endpoint."""
    url = os.environ.get("CARREL_URL")
    command = f"{COMMAND} --url {url}" if url else COMMAND
    completed = subprocess.run(  # noqa: S602 - the command is the constant above
        command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if completed.returncode:
        sys.exit(f"The command failed. Is `make run` serving?\n{completed.stderr}")
    PICTURE.write_text(draw_terminal(COMMAND, completed.stdout), "utf-8")


if __name__ == "__main__":
    main()
