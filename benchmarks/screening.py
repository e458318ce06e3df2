"""The false negatives, false positives and speed of the screening for secrets.

Usage: python -m benchmarks.screening [ROUNDS]

- False negatives are counted on secrets in their real formats. Each round generates new ones.
- False positives are counted on texts without secrets, cut to the size of a trace: this repository
  and the installed packages. A match of an author's address or of a sample in documentation also
  counts as a false positive.
- The same texts are scanned with detect-secrets, line by line, with all its plugins except those
  for entropy and for public IP addresses.
"""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

from benchmarks.measurement import (
    format_milliseconds,
    make_cpu_measurement,
    measure_interleaved,
    print_table,
)
from infra.build.discovery import ROOT
from shared.screening.screen import screen_texts
from tests.support.harmless_texts import HARMLESS_TEXTS, SLOW_PIECES
from tests.support.secret_samples import make_personal_data, make_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Scan = Callable[[str], set[tuple[int, str]]]
    """Returns the lines and kinds of the secrets in a text."""

ROUNDS: Final = 40
EXCERPT_CHARACTERS: Final = 2_000
MAX_CHARACTERS: Final = 50_000
_TEXT_SUFFIXES: Final = frozenset({".py", ".md", ".toml", ".txt", ".json", ".html", ".yaml", ".js"})
_SAMPLING_INTERVAL: Final = 12
_EXCLUDED_PLUGINS: Final = ("Entropy", "IP")
_OWN_FOLDERS: Final = ("shared", "functions", "infra", "tests", "docs")


def scan_with_carrel(text: str) -> set[tuple[int, str]]:
    """Scan with Carrel's screening."""
    return {(finding.line, finding.kind) for finding in screen_texts({"text": text})}


def make_detect_secrets_scan() -> Scan:
    """Return a function that scans with the plugins of detect-secrets."""
    plugin_classes: Iterable[Any] = get_mapping_from_secret_type_to_class().values()
    plugins = [
        plugin()
        for plugin in plugin_classes
        if not any(excluded in plugin.__name__ for excluded in _EXCLUDED_PLUGINS)
    ]

    def scan(text: str) -> set[tuple[int, str]]:
        return {
            (number, plugin.secret_type)
            for number, line in enumerate(text.split("\n"), 1)
            for plugin in plugins
            if any(True for _ in plugin.analyze_string(line))
        }

    return scan


def print_false_negatives(scans: Sequence[Scan], rounds: int) -> None:
    """Print the share of false negatives for each kind of secret that has any."""
    misses_by_scan = [Counter[str]() for _ in scans]
    # Some samples use several seeds in a row, so the seeds of two rounds lie far apart.
    samples = [sample for seed in range(rounds) for sample in make_secrets(1_000 * seed)]
    for misses, scan in zip(misses_by_scan, scans, strict=True):
        misses.update(
            sample.name
            for sample in samples
            if sample.line not in {line for line, _ in scan(sample.text)}
        )
    rows = [
        # A round has one sample of each kind.
        [kind, *(f"{misses[kind] / rounds:.0%}" for misses in misses_by_scan)]
        for kind in sorted(set[str]().union(*misses_by_scan))
    ]
    total = [f"{misses.total() / len(samples):.1%}" for misses in misses_by_scan]
    title = f"Missed, of {len(samples):,} secrets of {len(make_secrets())} kinds"
    print_table(title, ["", "Carrel", "detect-secrets"], [*rows, ["all", *total]])
    missed_personal_data = sum(not scan_with_carrel(sample.text) for sample in make_personal_data())
    print(f"  personal data: {missed_personal_data} of {len(make_personal_data())} missed")


def split_into_excerpts(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the texts of files in excerpts of the size of a trace."""
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        yield from (
            text[start : start + EXCERPT_CHARACTERS]
            for start in range(0, len(text), EXCERPT_CHARACTERS)
        )


def _find_files(root: Path) -> list[Path]:
    return sorted(
        path for path in root.rglob("*") if path.suffix in _TEXT_SUFFIXES and path.is_file()
    )


def print_false_positives(scans: Sequence[Scan]) -> None:
    """Print the share of false positives, and their kinds."""
    # A sample of the files, to save time.
    packages = _find_files(Path(sysconfig.get_paths()["purelib"]))[::_SAMPLING_INTERVAL]
    own_files = [path for folder in _OWN_FOLDERS for path in _find_files(ROOT / folder)]
    own_files += ROOT.glob("*.t*")
    corpora = {
        "innocent samples": HARMLESS_TEXTS,
        "this repository": list(split_into_excerpts(own_files)),
        "packages": list(split_into_excerpts(packages)),
    }
    rows, kinds = [], Counter[str]()
    for name, texts in corpora.items():
        findings_by_scan = [[scan(text) for text in texts] for scan in scans]
        flagged_counts = [sum(map(bool, findings)) for findings in findings_by_scan]
        rows.append(
            [name, f"{len(texts):,}", *(f"{n} ({n / len(texts):.2%})" for n in flagged_counts)]
        )
        carrel_findings = findings_by_scan[0]
        kinds.update(f"{name}: {kind}" for findings in carrel_findings for _, kind in findings)
    print_table("Texts flagged", ["", "texts", "Carrel", "detect-secrets"], rows)
    print_table(
        "Carrel's findings by kind",
        ["", "lines"],
        [[kind, str(n)] for kind, n in sorted(kinds.items())],
    )


def _scan_seconds(text: str) -> float:
    started = time.perf_counter()
    screen_texts({"context_text": text, "solution_text": text})
    return time.perf_counter() - started


def print_times() -> None:
    """Print the time to screen code, and the texts that are slowest to screen."""
    text = "".join(path.read_text(encoding="utf-8") for path in _find_files(ROOT / "shared"))
    rows = [
        [
            f"{length:,} characters of code",
            format_milliseconds([_scan_seconds(text[:length]) for _ in range(9)]),
        ]
        for length in (EXCERPT_CHARACTERS, MAX_CHARACTERS)
    ]
    hostile = {
        part: _scan_seconds((part * MAX_CHARACTERS)[:MAX_CHARACTERS]) for part in SLOW_PIECES
    }
    slowest = sorted(hostile, key=lambda part: -hostile[part])[:3]
    rows += [
        [f"{MAX_CHARACTERS:,} of {part!r}", format_milliseconds([hostile[part]])]
        for part in slowest
    ]
    print_table("Two texts each, ms", ["", "ms"], rows)


async def print_import_times() -> None:
    """Print the CPU time of imports, and of the first scan in a process."""
    snippets = {
        "nothing": "pass",
        "the screening module": "import shared.screening.screen",
        "phonenumbers": "import phonenumbers",
        "stdnum": "import stdnum.iban, stdnum.luhn, stdnum.us.ssn",
        "detect-secrets": "import detect_secrets.plugins.aws",
        "all, and a scan": "import shared.screening.screen as s; s.screen_texts({'a': 'text'})",
    }
    durations = await measure_interleaved(
        {name: make_cpu_measurement(snippet) for name, snippet in snippets.items()}, rounds=5
    )
    rows = [[name, format_milliseconds(values)] for name, values in durations.items()]
    print_table("CPU time of a process that imports, ms", ["", "ms"], rows)


def main() -> None:
    """Run all measurements."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    scans = (scan_with_carrel, make_detect_secrets_scan())
    print_false_negatives(scans, rounds)
    print_false_positives(scans)
    print_times()
    asyncio.run(print_import_times())


if __name__ == "__main__":
    main()
