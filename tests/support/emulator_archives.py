"""Small substitutes for the Firestore emulator's archive and Java, for tests that install both."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MAIN: Final = "com/google/cloud/datastore/emulator/firestore/CloudFirestore.class"
"""The path of the emulator's main class in its archive."""
_CLASS_VERSION_OFFSET: Final = 44
"""The major version of a class file is that of Java plus this: 55 for Java 11."""


def make_archive(required_java: int = 11) -> bytes:
    """Return an archive with only the header of the main class, which names the required Java."""
    magic_number, minor_version = b"\xca\xfe\xba\xbe", b"\x00\x00"
    major_version = (required_java + _CLASS_VERSION_OFFSET).to_bytes(2, "big")
    header = magic_number + minor_version + major_version
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(MAIN, header)
    return buffer.getvalue()


def make_java(version: int) -> str:
    """Return a shell script that prints this version of Java, as `java -version` does."""
    return f"""#!/bin/sh\necho 'openjdk version "{version}.0.1" 2025-01-01' >&2\n"""


def write_program(path: Path, script: str) -> Path:
    """Write an executable script, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path
