"""`list_origins` lists what is followed, and what could not be read, to owners."""

from pathlib import Path

from functions.jobs.ingest.folder import set_watched
from functions.tools.knowledge.list_origins.tool import SCHEDULED
from infra.build.discovery import jobs
from shared.firestore.runs import Run, Runs, RunState, new_run_id
from shared.knowledge.followed import UPLOADS, FileState, Followed
from shared.links.repository import SavedLinks
from shared.runtime.context import App, Context
from tests.support.clock import NOON, SettableClock
from tests.support.followed_folder import run_ingest
from tests.support.links import EDITOR
from tests.support.notes import OWNER
from tests.support.source_files import write_file
from tests.support.tool_calls import call_result

URL = "https://example.com/"


def test_all_scheduled_jobs_are_asked() -> None:
    assert {job.name for job in jobs() if job.schedule} == set(SCHEDULED)


async def test_folders_say_when_they_were_read_and_what_failed(
    app: App, ctx: Context, clock: SettableClock, tmp_path: Path
) -> None:
    clock.now = NOON
    write_file(tmp_path, "vault/good.md", "A reef is good.")
    write_file(tmp_path, "vault/bad.epub", "Not a book.")
    await set_watched(tmp_path / "vault", ctx.database, watched=True)
    await run_ingest(ctx, tmp_path / "vault")

    [folder] = (await call_result(app, "list_origins", OWNER))["origins"]
    [problem] = folder.pop("problems")
    assert problem.startswith("bad.epub: ")
    assert folder == {
        "kind": "folder",
        "name": str(tmp_path / "vault"),
        "watched": True,
        "read_at": f"{NOON:%Y-%m-%dT%H:%M:%SZ}",
    }


async def test_buckets_and_uploads_say_what_failed(app: App, ctx: Context) -> None:
    for address in (UPLOADS, "gs://shelf/books", "readwise"):
        followed = Followed(ctx.database, address, FileState)
        await followed.store_outcome(NOON, ["a.md: has no text"])
        await followed.store_outcome(None, None)
    origins = (await call_result(app, "list_origins", OWNER))["origins"]
    assert [origin["kind"] for origin in origins] == ["bucket", "readwise", "uploads"]
    for origin in origins:
        assert origin["read_at"] == f"{NOON:%Y-%m-%dT%H:%M:%SZ}"
        assert origin["problems"] == ["a.md: has no text"]


async def test_failures_of_links_are_not_repeated_as_those_of_the_job(
    app: App, ctx: Context
) -> None:
    lost = await call_result(app, "save_link", EDITOR, url=f"{URL}lost", title="lost")
    await call_result(app, "save_link", EDITOR, url=f"{URL}waiting")
    stored = await SavedLinks(ctx.database).get(lost["source_id"])
    assert stored.link
    await ctx.database.commit([stored.build_update_write(stored.link.mark_failed("is gone (410)"))])
    run = Run(
        run_id=new_run_id("ingest", NOON),
        state=RunState.FINISHED,
        failures=(f"{URL}lost: is gone (410)", "bucket: UNAVAILABLE: It does not answer."),
    )
    await ctx.database.commit([Runs(ctx.database).record(run)])

    result = await call_result(app, "list_origins", OWNER)
    assert result["waiting_links"] == 1
    assert result["failed_links"] == [
        {"url": f"{URL}lost", "state": "failed", "title": "lost", "error": "is gone (410)"}
    ]
    [failed_run] = result["failed_runs"]
    assert failed_run["job"] == "ingest"
    assert failed_run["problems"] == ["bucket: UNAVAILABLE: It does not answer."]


async def test_only_the_last_run_of_a_job_counts(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    async def record(**fields: object) -> None:
        clock.advance(minutes=1)
        run = Run(run_id=new_run_id("embed", clock()), **fields)  # type: ignore[arg-type]
        await ctx.database.commit([Runs(ctx.database).record(run)])

    await record(state=RunState.STOPPED, error="UNAVAILABLE: Vertex AI does not answer.")
    [failed_run] = (await call_result(app, "list_origins", OWNER))["failed_runs"]
    assert failed_run["problems"] == ["UNAVAILABLE: Vertex AI does not answer."]
    await record(state=RunState.FINISHED)
    assert (await call_result(app, "list_origins", OWNER))["failed_runs"] == []
