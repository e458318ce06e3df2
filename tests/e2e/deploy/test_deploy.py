"""Deploying: from nothing, again, after a kill, and back when it went wrong."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from infra.build.discovery import ROOT
from infra.cloud.failures import NotDone
from infra.cloud.release import bundles
from infra.cloud.smoke_key import SECRET
from infra.cloud.steps import EVERYTHING, INDEXES, RELEASE, go
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Scope
from shared.core.errors import Forbidden
from shared.firestore.database import Connection
from tests.support.fake_deployment import GOOD, NEEDS_TERRAFORM, said
from tests.support.fakes.cloud_storage import FORBIDDEN, Fault

if TYPE_CHECKING:
    from pathlib import Path

    from shared.accounts.access_key import AccessKey
    from tests.support.fake_deployment import Site
    from tests.support.fakes.cloud_storage import FakeCloudStorage
    from tests.support.fakes.google_cloud import FakeGoogleCloud

pytestmark = [NEEDS_TERRAFORM, pytest.mark.slow]


def keys_in(project: str) -> list[AccessKey]:
    async def listed() -> list[AccessKey]:
        connection = Connection(project, "access")
        try:
            return await AccessStore(connection).keys.all()
        finally:
            await connection.aclose()

    return asyncio.run(listed())


def state_of(site: Site, storage: FakeCloudStorage, google: FakeGoogleCloud) -> object:
    """All that a deployment leaves, but for what is random."""
    project = google.projects[site.project]
    bucket = f"{site.project}-carrel"
    return {
        "objects": {name: storage.text(bucket, name) for name in storage.names(bucket)},
        "values": {name: len(values) for name, values in project.secrets.items()},
        "services": project.services,
        "running": site.running(),
        "keys": [(key.user_id, key.scopes) for key in keys_in(site.project)],
    }


def test_from_nothing_everything_is_made_and_what_passed_is_remembered(
    site: Site, storage: FakeCloudStorage, google: FakeGoogleCloud
) -> None:
    go(site.cloud(), EVERYTHING)
    manifest = site.manifest()
    bucket = f"{site.project}-carrel"
    assert {
        *bundles(manifest),
        "deployment.tfvars.json",
        "releases/last-good.json",
    } == set(storage.names(bucket))
    remembered = json.loads(storage.text(bucket, "releases/last-good.json"))
    deployment = json.loads(storage.text(bucket, "deployment.tfvars.json"))
    assert {"manifest": manifest, "deployment": deployment} == remembered
    assert {name: f["bundle"] for name, f in manifest["functions"].items()} == site.running()  # type: ignore[attr-defined]
    [secrets] = google.projects[site.project].secrets["ACCESS_SECRETS"]
    assert 1 == len(json.loads(secrets))


def test_the_manifest_says_which_version_of_each_bundle_is_in_the_bucket(
    site: Site, storage: FakeCloudStorage
) -> None:
    go(site.cloud(), EVERYTHING)
    bucket = f"{site.project}-carrel"
    remembered = json.loads(storage.text(bucket, "releases/last-good.json"))
    released = remembered["manifest"]["functions"].values()
    assert {each["bundle"]: each["generation"] for each in released} == {
        name: storage.blobs[bucket, name].generation
        for name in storage.names(bucket)
        if name.startswith("bundles/")
    }


def test_the_smoke_test_has_a_key_of_its_own_that_may_only_read(
    site: Site, google: FakeGoogleCloud
) -> None:
    go(site.cloud(), EVERYTHING)
    [key] = keys_in(site.project)
    assert ("smoke", frozenset({Scope.READ})) == (key.user_id, key.scopes)
    [text] = google.projects[site.project].secrets[SECRET]
    assert key.key_id in text


def test_deploying_again_deploys_only_what_changed(site: Site) -> None:
    go(site.cloud(), EVERYTHING)
    site.write_code(GOOD | {"search-kb": "better"})
    go(site.cloud(), EVERYTHING)
    assert ["embed", "gateway", "search-kb"] == sorted(site.deployed()[:3])
    assert ["search-kb"] == site.deployed()[3:]
    assert 1 == len(keys_in(site.project))


@pytest.mark.parametrize(
    "last_words",
    [
        *(f"[{number}/" for number in range(2, len(EVERYTHING) + 1)),
        "bundles were new",
        "made at random",
        "the gateway runs",
    ],
)
def test_killed_at_any_step_the_next_run_ends_as_an_undisturbed_one(
    last_words: str, site: Site, storage: FakeCloudStorage, google: FakeGoogleCloud
) -> None:
    what = json.dumps([str(site.folder), site.project, site.google, last_words])
    command = [sys.executable, "-m", "tests.support.killed_deploy", what]
    killed = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, check=False)
    assert -signal.SIGKILL == killed.returncode
    go(site.cloud(), EVERYTHING)
    resumed = state_of(site, storage, google)
    go(site.cloud(), EVERYTHING)
    assert state_of(site, storage, google) == resumed
    assert 1 == len(keys_in(site.project))
    assert 1 == len(google.projects[site.project].secrets["ACCESS_SECRETS"])


def test_functions_that_do_not_answer_are_replaced_by_those_before(
    site: Site, storage: FakeCloudStorage
) -> None:
    go(site.cloud(), EVERYTHING)
    before = site.running()
    remembered = storage.text(f"{site.project}-carrel", "releases/last-good.json")
    site.write_code(GOOD | {"gateway": "bad"})
    with pytest.raises(NotDone) as failure:
        go(site.cloud(), EVERYTHING)
    assert before == site.running()
    assert remembered == storage.text(f"{site.project}-carrel", "releases/last-good.json")
    assert "The smoke test failed: the gateway runs bundles/gateway-bad" in said(failure)
    assert "The release before it serves again." in said(failure)


def test_whatever_goes_wrong_with_the_test_itself_those_before_are_put_back(site: Site) -> None:
    go(site.cloud(), EVERYTHING)
    before = site.running()
    site.write_code(GOOD | {"gateway": "broken"})
    with pytest.raises(NotDone) as failure:
        go(site.cloud(), EVERYTHING)
    assert before == site.running()
    assert "KeyError: 'chunks'\nThe release before it serves again." in said(failure)


def test_killed_while_it_is_remembered_a_release_is_never_paired_with_anothers_deployment(
    site: Site, storage: FakeCloudStorage
) -> None:
    go(site.cloud(), EVERYTHING)
    cloud = site.cloud()
    first = cloud.bucket.last_good()
    later = cloud.deployment.model_copy(update={"alert_email": "ada@example.com"})
    storage.faults["upload"].extend([Fault(), FORBIDDEN])
    with pytest.raises(Forbidden):
        cloud.bucket.keep('{"functions": {}}', later)
    assert first == cloud.bucket.last_good()
    cloud.bucket.keep('{"functions": {}}', later)
    assert ({"functions": {}}, later) == cloud.bucket.last_good()


def test_a_first_release_that_does_not_answer_says_that_there_is_nothing_to_go_back_to(
    site: Site, storage: FakeCloudStorage
) -> None:
    site.write_code(GOOD | {"gateway": "bad"})
    with pytest.raises(NotDone, match="no earlier release to go back to") as failure:
        go(site.cloud(), EVERYTHING)
    assert "Next: carrel --cloud doctor" in said(failure)
    assert "releases/last-good.json" not in storage.names(f"{site.project}-carrel")


def test_a_function_that_cannot_be_deployed_is_replaced_by_the_one_before(site: Site) -> None:
    go(site.cloud(), EVERYTHING)
    before = site.running()
    site.write_code(GOOD | {"embed": "$(kill -9 $PPID)"})  # what deploys it dies
    with pytest.raises(NotDone, match="terraform apply failed"):
        go(site.cloud(), EVERYTHING)
    assert before == site.running()


def hesitant(folder: Path) -> str:
    """A PATH with a Terraform that once cannot make everything, as in a project of minutes ago."""
    programs = folder / "hesitant"
    programs.mkdir()
    path = programs / "terraform"
    path.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        "  *-target=*) ;;\n"
        f"  *apply*) mkdir {programs}/refused 2>&- && echo 'Error 403: not yet' >&2 && exit 1 ;;\n"
        "esac\n"
        f'exec {shutil.which("terraform")} "$@"\n'
    )
    path.chmod(0o755)
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


def test_a_first_release_is_tried_again_since_a_new_project_may_not_be_ready(
    site: Site, tmp_path: Path
) -> None:
    told: list[str] = []
    go(replace(site, path=hesitant(tmp_path)).cloud(told.append), EVERYTHING)
    assert set(GOOD) == site.running().keys()
    [once_more] = [line for line in told if "once more" in line]
    assert "Error 403: not yet" in once_more


def test_a_later_release_is_not_tried_again(site: Site, tmp_path: Path) -> None:
    go(site.cloud(), EVERYTHING)
    site.write_code(GOOD | {"embed": "better"})
    with pytest.raises(NotDone, match="Error 403: not yet"):
        go(replace(site, path=hesitant(tmp_path)).cloud(), EVERYTHING)


def test_a_build_makes_indexes_first_and_then_releases_what_was_staged(site: Site) -> None:
    go(site.cloud(), EVERYTHING)
    site.write_code(GOOD | {"embed": "better"})
    cloud = site.cloud()
    cloud.stage(cloud.dist)
    go(cloud, INDEXES)
    assert 3 == len(site.deployed())
    go(cloud, RELEASE)
    assert ["embed"] == site.deployed()[3:]


def test_a_release_of_nothing_says_how_to_stage(site: Site) -> None:
    with pytest.raises(NotDone, match=r"Nothing is staged\. Next: carrel stage"):
        go(site.cloud(), RELEASE)


def test_a_smoke_key_that_was_revoked_is_replaced(site: Site, google: FakeGoogleCloud) -> None:
    go(site.cloud(), EVERYTHING)
    [key] = keys_in(site.project)

    async def revoked() -> None:
        connection = Connection(site.project, "access")
        try:
            await AccessStore(connection).keys.revoke(key.key_id, key.created_at)
        finally:
            await connection.aclose()

    asyncio.run(revoked())
    go(site.cloud(), EVERYTHING)
    assert 2 == len(google.projects[site.project].secrets[SECRET])
