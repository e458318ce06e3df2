"""Disks and folders on which SQLite cannot protect a database are recognised."""

from pathlib import Path

import pytest

from infra.local.state_disk import (
    Mount,
    find_remote_disk,
    find_synchronised_folder,
    parse_linux_mounts,
    parse_macos_mounts,
    read_mounts,
)

LINUX = parse_linux_mounts("""\
overlay / overlay rw,relatime,lowerdir=/a:/b 0 0
proc /proc proc rw,nosuid 0 0
server:/home /home nfs4 rw,relatime,vers=4.2 0 0
/dev/sdb1 /home/me/disk ext4 rw 0 0
//nas/share /mnt/my\\040share cifs rw 0 0
C:\\134 /mnt/c 9p rw,noatime,dirsync,aname=drvfs;path=C:\\;uid=1000 0 0
drvfsD /mnt/d virtiofs rw 0 0
host0 /shared 9p rw,trans=virtio,version=9p2000.L 0 0
mount1 /shared/mac virtiofs rw,relatime 0 0
none /volume 9p rw,trans=fd,rfdno=9,wfdno=9 0 0
me@server:/ /mnt/ssh fuse.sshfs rw 0 0
/dev/sdc1 /over nfs rw 0 0
/dev/sdd1 /over xfs rw 0 0
""")
MACOS = parse_macos_mounts("""\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse)
//me@nas._smb._tcp.local/my share on /Volumes/my share (smbfs, nodev, nosuid, mounted by me)
server:/export on /Volumes/export (nfs, nodev, nosuid, mounted by me)
""")


SMALL_MACHINES = ["root / virtiofs rw 0 0", "root / 9p rw,trans=virtio 0 0"]
"""The only disk of a virtual machine is its own."""


@pytest.mark.parametrize(
    ("mounts", "folder", "kind"),
    [
        (LINUX, "/srv/carrel", ""),
        (LINUX, "/home/me/.carrel", "nfs4"),
        (LINUX, "/home/me/disk/.carrel", ""),
        (LINUX, "/mnt/my share/.carrel", "cifs"),
        (LINUX, "/mnt/c/Users/me/.carrel", "drvfs"),
        (LINUX, "/mnt/d/.carrel", "drvfs"),
        (LINUX, "/mnt/carrel", ""),
        (LINUX, "/shared/.carrel", "virtio"),
        (LINUX, "/shared/mac/.carrel", "virtio"),
        (LINUX, "/volume/.carrel", ""),
        (LINUX, "/mnt/ssh", "fuse.sshfs"),
        (LINUX, "/over/.carrel", ""),
        *((parse_linux_mounts(line), "/srv/.carrel", "") for line in SMALL_MACHINES),
        (MACOS, "/Users/me/.carrel", ""),
        (MACOS, "/Volumes/my share/.carrel", "smbfs"),
        (MACOS, "/Volumes/export", "nfs"),
        (MACOS, "/Volumes/exported", ""),
    ],
)
def test_the_disk_nearest_to_a_folder_decides(mounts: list[Mount], folder: str, kind: str) -> None:
    assert find_remote_disk(Path(folder), mounts) == kind


def test_this_machine_tells_its_disks(tmp_path: Path) -> None:
    assert Path("/") in {mount.folder for mount in read_mounts()}
    assert find_remote_disk(tmp_path, []) == ""


@pytest.mark.parametrize(
    "folder",
    [
        *("Dropbox", "Dropbox (Personal)", "OneDrive", "OneDrive - Contoso", "iCloudDrive"),
        *("Library/Mobile Documents", "Library/CloudStorage", "Google Drive", "Nextcloud"),
    ],
)
def test_a_synchronised_folder_is_known_by_its_name(tmp_path: Path, folder: str) -> None:
    assert find_synchronised_folder(tmp_path / folder / "notes/.carrel") == tmp_path / folder


@pytest.mark.parametrize("mark", [".dropbox.cache", ".stfolder"])
def test_a_synchronised_folder_is_known_by_its_marks(tmp_path: Path, mark: str) -> None:
    (tmp_path / "mine" / mark).mkdir(parents=True)
    assert find_synchronised_folder(tmp_path / "mine" / "notes" / ".carrel") == tmp_path / "mine"


def test_documents_of_a_mac_may_be_in_icloud(tmp_path: Path) -> None:
    state = tmp_path / "Documents" / "carrel" / ".carrel"
    assert find_synchronised_folder(state, tmp_path) is None
    (tmp_path / "Library/Mobile Documents/com~apple~CloudDocs/Documents").mkdir(parents=True)
    assert find_synchronised_folder(state, tmp_path) == tmp_path / "Documents"


@pytest.mark.parametrize("name", ["dropbox-notes-parser", "drive", "boxes", "icloud", "my drives"])
def test_other_names_are_not_taken_for_synchronised(tmp_path: Path, name: str) -> None:
    assert find_synchronised_folder(tmp_path / name / ".carrel") is None
