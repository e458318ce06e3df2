"""What saving a note costs: document writes, round trips and milliseconds.

Usage: python -m benchmarks.notes

Notes with text from SciFact's abstracts are saved one after the other on a new emulator, with the
local embedder. Then the same notes are saved again, and then the second half of each is changed.
"""

from __future__ import annotations

import asyncio
import os
import time
from io import StringIO
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.emulator import use_emulator
from benchmarks.measurement import print_table
from benchmarks.scifact import ABSTRACTS, read_rows, require_file
from functions.tools.knowledge.save_note.arguments import MAX_TEXT_LENGTH
from functions.tools.knowledge.save_note.tool import TOOL
from shared.core.caller import Caller, Role
from shared.core.log import log_only_warnings
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.invocation import invoke
from shared.runtime.messages import CallRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.runtime.messages import CallAnswer

LENGTHS: Final = (300, 2_000, MAX_TEXT_LENGTH)
NOTES_PER_LENGTH: Final = 5
EDITOR: Final = Caller.of("bench", role=Role.EDITOR)


async def save_note(app: App, **arguments: Any) -> tuple[CallAnswer, float]:
    """Call save_note, and return the answer and the milliseconds that the call took."""
    request = CallRequest(
        call_id=os.urandom(8).hex(),
        arguments=arguments,
        caller=EDITOR,
        deadline=time.time() + 30,
    )
    start = time.perf_counter()
    answer = await invoke(TOOL, request, app)
    if answer.error:
        raise RuntimeError(answer.error)
    return answer, (time.perf_counter() - start) * 1000


def format_row(name: str, calls: Sequence[tuple[CallAnswer, float]]) -> list[str]:
    """Return a row of the table: the medians of the calls, but the maximum of round trips."""
    receipts = [answer.receipt for answer, _ in calls]
    return [
        name,
        f"{median(receipt.documents_written for receipt in receipts):.0f}",
        f"{median(receipt.documents_read for receipt in receipts):.0f}",
        f"{max(receipt.round_trips for receipt in receipts)}",
        f"{median(elapsed for _, elapsed in calls):.0f}",
    ]


async def measure(text: str) -> None:
    """Save and change notes of each length, and print the costs."""
    app = App(Settings(google_cloud_project="bench-notes"))
    await save_note(app, text="The first note loads the model.")
    rows = []
    remaining = StringIO(text)
    for length in LENGTHS:
        notes = [remaining.read(length) for _ in range(NOTES_PER_LENGTH)]
        replacements = [remaining.read(length) for _ in range(NOTES_PER_LENGTH)]
        first_saves = [await save_note(app, text=note, again=True) for note in notes]
        duplicates = [await save_note(app, text=note) for note in notes]
        changes = []
        for (answer, _), note, replacement in zip(first_saves, notes, replacements, strict=True):
            source_id = (answer.result or {})["source_id"]
            half_changed = note[: length // 2] + replacement[length // 2 :]
            changes.append(await save_note(app, source_id=source_id, revision=1, text=half_changed))
        rows += [
            format_row(f"{length:,} characters, new", first_saves),
            format_row(f"{length:,} characters, a duplicate", duplicates),
            format_row(f"{length:,} characters, half changed", changes),
        ]
    await app.aclose()
    columns = ["note", "writes", "reads", "round trips, at most", "ms, median"]
    print_table(f"{NOTES_PER_LENGTH} notes of each length", columns, rows)


def main() -> None:
    """Start an emulator, and measure."""
    require_file(ABSTRACTS)
    text = " ".join(row["text"] for row in read_rows(ABSTRACTS)[:1_000])
    log_only_warnings()
    with use_emulator():
        asyncio.run(measure(text))


if __name__ == "__main__":
    main()
