"""Finds the programs of Google's Firestore emulator on this machine: its archive, and Java."""

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MAIN_CLASS: Final = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
"""The class that Java runs to start the emulator."""
_MAIN_CLASS_FILE: Final = f"{_MAIN_CLASS.replace('.', '/')}.class"
_CLASS_VERSION_OFFSET: Final = 44
"""The major version of a class file is the Java version plus this number (JVM specification,
section 4.1)."""
GET_EMULATOR: Final = """
The tests need Java, and Google's Firestore emulator, in one of these ways:
  gcloud          gcloud components install cloud-firestore-emulator
  gcloud by apt   sudo apt-get install google-cloud-cli-firestore-emulator
  npm             npx firebase-tools setup:emulators:firestore
"""

_ARCHIVES: Final = "cloud-firestore-emulator-*.jar"
"""The pattern of the archive's name in the folder of firebase-tools."""


class EmulatorError(Exception):
    """The emulator cannot run."""


def find_emulator(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command that starts the emulator, without the arguments for its address.

    Args:
        environ: The environment variables. JAVA_HOME, PATH, FIREBASE_EMULATORS_PATH and HOME
            locate Java and the emulator.

    Raises:
        EmulatorError: The emulator, or a Java that is new enough for it, is missing.
    """
    candidates = [_find_gcloud_archive(environ), *_find_firebase_archives(environ)]
    archive = next((path for path in candidates if path and path.is_file()), None)
    if not archive:
        raise EmulatorError(f"The Firestore emulator is missing. {GET_EMULATOR}")
    required = read_required_java(archive)
    java = find_java(environ, required)
    if not java:
        raise EmulatorError(f"Java {required} or newer is missing, which {archive} needs.")
    # The emulator crashes when it looks up a message in a language other than English.
    return [java, "-Duser.language=en", "-cp", str(archive), _MAIN_CLASS, "start"]


def read_required_java(archive: Path) -> int:
    """Return the oldest major version of Java that runs the emulator in an archive."""
    with zipfile.ZipFile(archive) as jar:
        header = jar.read(_MAIN_CLASS_FILE)[:8]
    return int.from_bytes(header[6:8], "big") - _CLASS_VERSION_OFFSET


def find_java(environ: Mapping[str, str], required: int) -> str | None:
    """Find a Java of the required version or newer."""
    home = environ.get("JAVA_HOME")
    for folder in (f"{home}/bin" if home else "", environ.get("PATH", "")):
        java = shutil.which("java", path=folder)
        if java and get_java_version(java) >= required:
            return java
    return None


def get_java_version(java: str) -> int:
    """Return Java's major version, 1 for Java 8 and older (1.8), or 0 if Java does not run."""
    command = [java, "-version"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', process.stderr)
    return int(version[1]) if version else 0


def _find_gcloud_archive(environ: Mapping[str, str]) -> Path | None:
    """Return where gcloud installs the emulator, or None if gcloud is not on PATH."""
    gcloud = shutil.which("gcloud", path=environ.get("PATH", ""))
    if not gcloud:
        return None
    root = Path(gcloud).resolve().parents[1]
    if not (root / "lib" / "gcloud.py").exists():  # `gcloud` is a wrapper of snap or asdf
        command = [gcloud, "info", "--format=value(installation.sdk_root)"]
        process = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
        root = Path(process.stdout.strip())
    return root / "platform" / "cloud-firestore-emulator" / "cloud-firestore-emulator.jar"


def _find_firebase_archives(environ: Mapping[str, str]) -> list[Path]:
    """Return the archives that firebase-tools downloaded, latest first."""
    default = Path(environ.get("HOME", "")) / ".cache" / "firebase" / "emulators"
    folder = Path(environ.get("FIREBASE_EMULATORS_PATH") or default)
    archives = folder.glob(_ARCHIVES)
    return sorted(archives, key=lambda archive: archive.stat().st_mtime, reverse=True)
