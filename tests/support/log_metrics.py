"""Derives log entries and values of metrics from Carrel's log lines, as Cloud Logging does.

It supports the filters and extractors in `infra/build/log_metrics.json`, which defines the metrics.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

from infra.build.discovery import ROOT

METRICS: Final[list[dict[str, Any]]] = json.loads(
    (ROOT / "infra" / "build" / "log_metrics.json").read_text("utf-8")
)
"""The definitions of the metrics."""
_ENTRY_FIELDS: Final = {
    "severity": "severity",
    "time": "timestamp",
    "logging.googleapis.com/trace": "trace",
    "logging.googleapis.com/spanId": "spanId",
    "logging.googleapis.com/trace_sampled": "traceSampled",
}
"""The fields of a line that become fields of the log entry, with their names in the entry."""
_COMPARISON: Final = re.compile(r'(?P<path>[\w.]+)(?:="(?P<value>[^"]*)"|(?P<exists>:\*))')
"""A part of a filter: `path="value"`, or `path:*` for any value."""
_EXTRACTOR: Final = re.compile(r"EXTRACT\((?P<path>[\w.]+)\)")


def parse_log_entry(line: str) -> dict[str, Any]:
    """Return the log entry of a line that a function logs."""
    fields = json.loads(line)
    entry_fields = {name: fields.pop(key) for key, name in _ENTRY_FIELDS.items() if key in fields}
    return {"resource": {"type": "cloud_run_revision"}, "jsonPayload": fields, **entry_fields}


def extract_labels(metric: dict[str, Any], entry: dict[str, Any]) -> dict[str, str]:
    """Return the labels that an entry gives to a metric; a missing value is an empty string."""
    extractors = metric["labelExtractors"].items()
    return {key: str(_extract(extractor, entry) or "") for key, extractor in extractors}


def extract_value(metric: dict[str, Any], entry: dict[str, Any]) -> float | None:
    """Return the value that an entry adds to a metric, or None if the filter does not match it."""
    if not all(_is_match(part, entry) for part in metric["filter"].split(" AND ")):
        return None
    extractor = metric.get("valueExtractor")
    return float(_extract(extractor, entry)) if extractor else 1.0


def extract_values(line: str) -> dict[str, float]:
    """Return the values that a line adds to metrics, by the metric's name."""
    entry = parse_log_entry(line)
    values = {metric["name"]: extract_value(metric, entry) for metric in METRICS}
    return {name: value for name, value in values.items() if value is not None}


def read_lines(size_before: int, log: Path) -> list[str]:
    """Return the lines that a log has after its first bytes."""
    with log.open("rb") as file:
        file.seek(size_before)
        return file.read().decode("utf-8", "replace").splitlines()


def _is_match(comparison: str, entry: dict[str, Any]) -> bool:
    match = _COMPARISON.fullmatch(comparison)
    assert match, comparison
    value = _find_value(match["path"], entry)
    return value is not None if match["exists"] else value == match["value"]


def _extract(extractor: str, entry: dict[str, Any]) -> Any:
    match = _EXTRACTOR.fullmatch(extractor)
    assert match, extractor
    return _find_value(match["path"], entry)


def _find_value(path: str, entry: dict[str, Any]) -> Any:
    value: Any = entry
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
