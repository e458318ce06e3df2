"""The test set of traces (solved coding problems): the sample's, further ones, and variants."""

import json
from pathlib import Path
from typing import Any, Final

from infra.local.sample.traces import PATH as SAMPLE

_FURTHER_TRACES: Final = Path(__file__).with_name("traces.json")


def read_trace_set() -> dict[str, list[dict[str, Any]]]:
    """Read the test set.

    Returns:
        `traces`; `duplicates`, which are edited or rewritten traces; and `siblings`, which are
        similar traces but not duplicates.
    """
    data: dict[str, list[dict[str, Any]]] = json.loads(_FURTHER_TRACES.read_text("utf-8"))
    traces = [*json.loads(SAMPLE.read_text("utf-8")), *data["traces"]]
    return data | {"traces": sorted(traces, key=lambda row: str(row["id"]))}
