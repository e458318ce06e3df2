"""Small stand-ins for the Firestore emulator's archive and Java, for tests that install them."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MAIN: Final = "com/google/cloud/datastore/emulator/firestore/CloudFirestore.class"


def make_archive(required_java: int = 11) -> bytes:
    """Return an archive whose main class needs a version of Java."""
    header = b"\xca\xfe\xba\xbe\x00\x00" + (required_java + 44).to_bytes(2, "big")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(MAIN, header)
    return buffer.getvalue()


def make_java(version: int) -> str:
    """Return a shell script that says that it is this version of Java."""
    return f"""#!/bin/sh\necho 'openjdk version "{version}.0.1" 2025-01-01' >&2\n"""


def write_program(path: Path, script: str) -> Path:
    """Write an executable program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path
