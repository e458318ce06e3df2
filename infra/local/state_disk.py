"""Whether SQLite can protect files in a folder: on a disk of this machine, not synchronised.

Processes that share a database also share memory, mapped from a file beside it. Network and Windows
file systems do not support that. A program that synchronises a folder reads and
replaces the files of a database one by one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

MOUNTS: Final = Path("/proc/self/mounts")
"""The file systems of Linux: source, folder, type and options, with octal codes for spaces."""
_MACOS_MOUNT: Final = re.compile(r".+? on (?P<folder>/.*) \((?P<kind>[^,)]+)[^)]*\)")
"""A line such as `//me@server/share on /Volumes/share (smbfs, nodev)`."""
_REMOTE: Final = re.compile(
    r"nfs4?|cifs|smb\w*|afpfs|webdav|afs|ncpfs|glusterfs|ceph|lustre|beegfs|vboxsf|prl_fs|vmhgfs"
    r"|drvfs|virtio|fakeowner|fuse\.(sshfs|rclone|davfs2?|vmhgfs-fuse|gvfsd-fuse|glusterfs|onedriver"
    r"|google-drive.*|s3fs|gcsfuse|grpcfuse)"
)
_SYNCHRONISED: Final = re.compile(
    r"(dropbox|onedrive|google ?drive|icloud ?drive|nextcloud|owncloud|pcloud ?drive)( .*)?"
    r"|mobile documents|cloudstorage|my drive|syncthing",
    re.IGNORECASE,
)
_MARKS: Final = (".dropbox.cache", ".stfolder")
"""What Dropbox and Syncthing keep in the folders that they synchronise, whatever their names."""


class Mount(NamedTuple):
    """A file system of this machine."""

    folder: Path
    kind: str


def read_mounts() -> list[Mount]:
    """Read which file systems this machine has. There are none where the system does not say."""
    if sys.platform == "darwin":
        command = subprocess.run(["/sbin/mount"], check=False, capture_output=True, text=True)
        return parse_macos_mounts(command.stdout)
    return parse_linux_mounts(os.fsdecode(MOUNTS.read_bytes())) if MOUNTS.exists() else []


def parse_linux_mounts(text: str) -> list[Mount]:
    """Parse `/proc/self/mounts`."""
    mounts = []
    for line in text.splitlines():
        source, folder, kind, options, *_ = line.split(" ")
        if "drvfs" in f"{source},{options}":
            kind = "drvfs"  # WSL mounts a disk of Windows as `9p`
        elif folder != "/" and (kind == "virtiofs" or "trans=virtio" in options):
            kind = "virtio"  # a virtual machine's shared folder, unless it is the machine's disk
        name = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), folder)
        mounts.append(Mount(Path(name), kind))
    return mounts


def parse_macos_mounts(text: str) -> list[Mount]:
    """Parse what `mount` prints."""
    matches = map(_MACOS_MOUNT.fullmatch, text.splitlines())
    return [Mount(Path(match["folder"]), match["kind"]) for match in matches if match]


def find_remote_disk(folder: Path, mounts: Iterable[Mount]) -> str:
    """Return the type of a folder's disk, if it is none of this machine, else an empty string."""
    path = folder.resolve()
    above = [mount for mount in mounts if path.is_relative_to(mount.folder)]
    if not above:
        return ""
    # Of several at one place, the last one hides the others.
    nearest = max(enumerate(above), key=lambda item: (len(item[1].folder.parts), item[0]))[1]
    return nearest.kind if _REMOTE.fullmatch(nearest.kind) else ""


def find_synchronised_folder(folder: Path, home: Path | None = None) -> Path | None:
    """Return the folder above that a program seems to synchronise with a cloud, or None."""
    path, home = folder.resolve(), home or Path.home()
    for above in (path, *path.parents):
        is_marked = any((above / mark).exists() for mark in _MARKS)
        if is_marked or _SYNCHRONISED.fullmatch(above.name) or _is_in_icloud(above, home):
            return above
    return None


def _is_in_icloud(folder: Path, home: Path) -> bool:
    """Return whether iCloud has taken a Mac's folder Desktop or Documents."""
    cloud = home / "Library" / "Mobile Documents" / "com~apple~CloudDocs"
    return folder in {home / "Desktop", home / "Documents"} and (cloud / folder.name).exists()
