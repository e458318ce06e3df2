"""The secret of local runs: made once at random, so that keys and sign-ins outlive a run."""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_BYTES: Final = 32


def local_secret(folder: Path) -> str:
    """The secret in `folder`; it is made if need be, for this machine's user alone to read.

    Of several processes that start at once, all get the same. A crash leaves it whole or absent.
    """
    path = folder / "secret"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _make(path)
    return path.read_text("ascii").strip()


def _make(path: Path) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".secret-") as file:  # mode 0600
        file.write(secrets.token_urlsafe(_BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was faster: its secret is the one
            os.link(file.name, path)
