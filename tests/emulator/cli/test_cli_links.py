"""`carrel links` counts listed links, and fetches or drops them."""

import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from infra.build.discovery import ROOT
from infra.local import jobs
from tests.support.commands import read_stored, run_carrel
from tests.support.links import ESSAY, SITE_URL, make_link_fetcher, make_text_page, serve_site
from tests.support.source_files import write_file

KILLED = """
import os, signal, sys
from functools import partial
from functions.jobs.ingest.links import queue
from functions.jobs.ingest.links.page import FETCH_RULES
from infra.cli.main import main
from infra.local import jobs
from shared.core.safe_fetch import Endpoint, SafeFetch
from tests.support.commit_hooks import WatchedApp, call_after_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.public_web_server import make_resolver

async def kill():
    os.kill(os.getpid(), signal.SIGKILL)

commits, port = int(sys.argv.pop(1)), int(sys.argv.pop(1))
fetch = SafeFetch(FETCH_RULES, make_resolver(Endpoint("127.0.0.1", port)))
jobs.fetch_links = partial(queue.fetch_links, pause=0)
jobs.fetch_pages = partial(jobs.fetch_pages, fetch)
hook = call_after_commit(commits, kill)
jobs.App = partial(WatchedApp, hook=hook, embedder=WordEmbedder())
main()
"""
"""A program that runs the command, and is killed after some commits."""


def write_bookmarks(folder: Path, **names: str) -> Path:
    """Write a browser's bookmarks, given by folder with the names of the pages."""
    folders = "".join(
        f"<DT><H3>{name}</H3><DL><p>"
        + "".join(f'<DT><A HREF="{SITE_URL}/{page}" TAGS="{page}">x</A>' for page in pages.split())
        + "</DL><p>"
        for name, pages in names.items()
    )
    content = f"<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><p>{folders}</DL><p>"
    return write_file(folder, "bookmarks.html", content)


def test_listed_links_are_counted_fetched_and_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_carrel("links").stdout.startswith("No links are listed.")
    path = write_bookmarks(tmp_path, Food="bread salt", Sea="knots gone tides")
    dry = run_carrel("ingest", str(path), "--dry-run")
    assert "bookmarks.html: lists 5 links, which are not fetched" in dry.stderr
    result = run_carrel("ingest", str(path))
    assert result.exit_code == 0, result.output
    assert "ingest: 5 links listed (" in result.stdout
    assert "ingest: New links: 5 of a browser. They are not fetched;" in result.stdout

    pages = dict.fromkeys(("bread", "salt", "knots"), make_text_page(ESSAY))
    with serve_site(**pages) as site:
        monkeypatch.setattr(jobs, "fetch_pages", partial(jobs.fetch_pages, make_link_fetcher(site)))
        assert run_carrel("links", "fetch", "--folder", "food", "--limit", "1").exit_code == 0
        assert len(site.requests) == 1
        result = run_carrel("links", "fetch", "--tag", "gone")
        assert result.exit_code == 1
        assert f"{SITE_URL}/gone: cannot be fetched: its server answers 404" in result.stderr
        assert len(site.requests) == 2
    lines = [line.split() for line in run_carrel("links").stdout.splitlines()]
    assert lines[0] == ["LIST", "FOLDER", "LISTED", "WAITING", "STORED", "FAILED"]
    assert lines[1:3] == [["a", "browser", "Sea", "2", "1"], ["a", "browser", "Food", "1", "1"]]
    assert ["3", "links", "not", "fetched."] == lines[-1][:4]
    assert run_carrel("links", "drop", "--folder", "Sea").stdout == "Dropped 2 links.\n"
    assert run_carrel("links", "drop").stdout == "Dropped 1 link.\n"
    states = Counter(link["state"] for link in read_stored("links").values())
    assert states == {"stored": 1, "failed": 1}


def test_only_the_named_links_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links that were due before stay due, and the same command goes on after an interruption."""
    folders = {f"Folder{number}": f"page{number} other{number}" for number in range(21)}
    run_carrel("ingest", str(write_bookmarks(tmp_path, **folders)))
    assert "... and 1 more: " in run_carrel("links").stdout
    assert "Folder9" in run_carrel("links", "--all").stdout

    names = [name for pages in folders.values() for name in pages.split()]
    with serve_site(**dict.fromkeys(names, make_text_page(ESSAY))) as site:
        fetch_pages = partial(jobs.fetch_pages, make_link_fetcher(site))
        monkeypatch.setattr(jobs, "fetch_pages", lambda **_: True)  # as if it were interrupted
        assert run_carrel("links", "fetch", "--folder", "Folder1").exit_code == 0
        monkeypatch.setattr(jobs, "fetch_pages", fetch_pages)
        result = run_carrel("links", "fetch", "--folder", "Folder3", "--limit", "1")
        assert "Links to fetch: 1." in result.stdout
        result = run_carrel("links", "fetch", "--folder", "Folder1", "--tag", "page1")
        assert "Links to fetch: 1." in result.stdout
        assert {request.target[-1] for request in site.requests} == {"1", "3"}
        assert len(site.requests) == 2

        result = run_carrel("links", "fetch", "--folder", "Folder99")
        assert result.exit_code == 1
        assert "0 links to fetch match." in result.stderr
        assert "index:" not in result.output
    states = Counter(link["state"] for link in read_stored("links").values())
    assert states == {"stored": 2, "waiting": 1, "listed": 39}


@pytest.mark.slow
@pytest.mark.parametrize("commits", [2, 6, 11])
def test_a_killed_fetch_goes_on(tmp_path: Path, project: str, commits: int) -> None:
    """The next one fetches the rest, and at most one page twice for each host."""
    names = [f"page{number}" for number in range(9)]
    run_carrel("ingest", str(write_bookmarks(tmp_path, Sea=" ".join(names))))
    with serve_site(**{name: make_text_page(f"# {name}\n\n{ESSAY}") for name in names}) as site:
        for count, code in ((commits, -9), (10_000, 0)):
            process = subprocess.run(
                [sys.executable, "-c", KILLED, str(count), str(site.server_port), "links", "fetch"],
                cwd=ROOT,
                env={**os.environ, "GOOGLE_CLOUD_PROJECT": project, "LEASE_SECONDS": "1"},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert process.returncode == code, process.stderr
        assert 9 <= len(site.requests) <= 10
    assert Counter(link["state"] for link in read_stored("links").values()) == {"stored": 9}
    assert len(read_stored("sources")) == 9
