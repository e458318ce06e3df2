"""The files of local models, on whose content every stored vector depends."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from shared.core.errors import PlatformFault

if TYPE_CHECKING:
    from pathlib import Path


def read_verified(path: Path, sha256: str) -> bytes:
    """Read a file and check its hash.

    Raises:
        PlatformFault: The file is not the expected one.
    """
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise PlatformFault(
            f"{path.name} is not the file that Carrel was built with: reinstall Carrel."
        )
    return content
