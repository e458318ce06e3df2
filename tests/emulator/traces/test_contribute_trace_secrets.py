"""Secrets and personal data are neither stored nor repeated by tools that write traces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.runtime.context import App
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import ANNA, call, call_result
from tests.support.traces import contribute, make_sample_trace, vote

# Each is written in two parts, so that scanners of source code do not report it.
TOKEN = "ghp_" + "Zk3vQ9xT1mLr7Wc5Yb8Nd2Hf6Js4Pg0AeUiO"
KEY = "AKIA" + "QXF7ZJ3MVN2LTRWE"
EMAIL = "greta.mustermann@kanzlei-sommer.de"
SECRETS = {"token": TOKEN, "key": KEY, "mail": EMAIL}


@pytest.mark.requirement("002-T2.1")
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("field", ["context_text", "solution_text"])
async def test_error_names_the_line_of_a_secret_without_the_secret(
    app: App, capfd: pytest.CaptureFixture[str], field: str, secret: str
) -> None:
    text = f"It failed.\nThen I called it with {secret} and it worked.\nGood."
    answer = await call(app, "contribute_trace", **make_sample_trace(0, **{field: text}))
    assert answer.error
    assert answer.error.code == "VALIDATION_ERROR"
    assert set(answer.error.details) == {field}
    assert "line 2" in answer.error.details[field]
    assert "line 1" not in answer.error.details[field]
    assert secret not in answer.model_dump_json() + "".join(capfd.readouterr())
    assert await read_app_documents(app, "traces") == {}
    assert await read_app_documents(app, "trace_lexicon") == {}


async def test_secret_in_the_title_is_refused(app: App) -> None:
    answer = await call(app, "contribute_trace", **make_sample_trace(0, title=f"Use {TOKEN}"))
    assert answer.error
    assert set(answer.error.details) == {"title"}
    assert TOKEN not in answer.model_dump_json()


async def test_secret_in_the_tags_is_refused(app: App) -> None:
    """The stored tag would be normalized, so it would differ from the secret."""
    secret = "xoxb-" + "263594206564-2343594206574-fgqbzplvdktrmwnxhjcsyeai"
    answer = await call(
        app, "contribute_trace", **make_sample_trace(0, tags=["slack", secret[:60]])
    )
    assert answer.error
    assert secret[:30] not in answer.model_dump_json()
    assert await read_app_documents(app, "traces") == {}


async def test_all_lines_with_secrets_are_listed(app: App) -> None:
    arguments = make_sample_trace(
        0, title=f"Ask {EMAIL}", context_text="Fine.", solution_text=f"a\n\n{TOKEN}\n{KEY}"
    )
    answer = await call(app, "contribute_trace", **arguments)
    assert answer.error
    assert set(answer.error.details) == {"title", "solution_text"}
    detail = answer.error.details["solution_text"]
    assert "line 3" in detail
    assert "line 4" in detail


async def test_secret_in_an_amendment_is_refused(app: App) -> None:
    trace_id = await contribute(app)
    traces_before = await read_app_documents(app, "traces")
    answer = await call(
        app, "amend_trace", trace_id=trace_id, solution_text=f"Set it:\ntoken = {TOKEN}"
    )
    assert answer.error
    assert answer.error.code == "VALIDATION_ERROR"
    assert set(answer.error.details) == {"solution_text"}
    assert "line 2" in answer.error.details["solution_text"]
    assert TOKEN not in answer.model_dump_json()
    assert await read_app_documents(app, "traces") == traces_before
    assert (await call_result(app, "get_trace", ANNA, trace_id=trace_id))["revision"] == 1


@pytest.mark.requirement("002-T3.3")
async def test_secret_in_feedback_is_refused(app: App) -> None:
    trace_id = await contribute(app)
    invalid: dict[str, Any] = {
        "vote_type": "down",
        "feedback_tag": "wrong",
        "feedback_text": f"Ask\n{EMAIL}.",
    }
    answer = await call(app, "vote_trace", "ben", trace_id=trace_id, **invalid)
    assert answer.error
    assert "line 2" in answer.error.details["feedback_text"]
    assert EMAIL not in answer.model_dump_json()
    assert (await call_result(app, "get_trace", "ben", trace_id=trace_id))["downvotes"] == 0

    # An address of the domain example.com belongs to nobody.
    await vote(app, trace_id, "ben", **(invalid | {"feedback_text": "Ask user@example.com."}))


async def test_key_of_a_refused_call_may_be_used_again(app: App) -> None:
    invalid: dict[str, Any] = make_sample_trace(0, context_text=TOKEN, idempotency_key="k")
    assert (await call(app, "contribute_trace", **invalid)).error
    corrected_arguments = make_sample_trace(0, context_text="<API_KEY>", idempotency_key="k")
    await call_result(app, "contribute_trace", **corrected_arguments)
    assert TOKEN not in json.dumps(await read_app_documents(app, "traces"), default=str)
