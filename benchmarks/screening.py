"""The misses, false alarms and speed of secret screening.

Usage: python -m benchmarks.screening [ROUNDS]

Misses are counted on secrets generated in each round, in their real formats. False alarms are
counted on texts without secrets, cut to the size of a trace: this repository and the installed
packages, where authors' addresses and samples in documentation count too. detect-secrets is
measured with its default plugins except those for entropy and public addresses, line by line.
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

from benchmarks.cold_start import import_seconds
from benchmarks.measurement import interleaved, milliseconds, print_table
from infra.build.discovery import ROOT
from shared.screening.screen import screen_texts
from tests.support.secret_samples import HOSTILE, INNOCENT, all_planted, personal_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Scan = Callable[[str], set[tuple[int, str]]]
    """Finds the lines and kinds of secrets in a text."""

ROUNDS: Final = 40
PIECE, LONGEST = 2_000, 50_000
_READ: Final = frozenset({".py", ".md", ".toml", ".txt", ".json", ".html", ".yaml", ".js"})
_EVERY: Final = 12
_NOISY: Final = ("Entropy", "IP")
_OURS: Final = ("shared", "functions", "infra", "tests", "docs")


def screened(text: str) -> set[tuple[int, str]]:
    """Scan with our screening."""
    return {(finding.line, finding.kind) for finding in screen_texts({"text": text})}


def detect_secrets_alone() -> Scan:
    """Scan with the plugins of detect-secrets."""
    named: Iterable[Any] = get_mapping_from_secret_type_to_class().values()
    plugins = [
        plugin() for plugin in named if not any(noisy in plugin.__name__ for noisy in _NOISY)
    ]

    def scan(text: str) -> set[tuple[int, str]]:
        return {
            (number, plugin.secret_type)
            for number, line in enumerate(text.split("\n"), 1)
            for plugin in plugins
            if any(True for _ in plugin.analyze_string(line))
        }

    return scan


def misses(scans: Sequence[Scan], rounds: int) -> None:
    """Print the misses by kind of secret, for kinds with misses."""
    missed = [Counter[str]() for _ in scans]
    planted = [sample for seed in range(rounds) for sample in all_planted(1_000 * seed)]
    for count, scan in zip(missed, scans, strict=True):
        count.update(p.name for p in planted if p.line not in {line for line, _ in scan(p.text)})
    rows = [
        [name, *(f"{count[name] / rounds:.0%}" for count in missed)]
        for name in sorted(set[str]().union(*missed))
    ]
    total = [f"{count.total() / len(planted):.1%}" for count in missed]
    title = f"Missed, of {len(planted):,} secrets of {len(all_planted())} kinds"
    print_table(title, ["", "ours", "detect-secrets"], [*rows, ["all", *total]])
    people = sum(not screened(sample.text) for sample in personal_data())
    print(f"  personal data: {people} of {len(personal_data())} missed")  # noqa: T201 - a benchmark prints


def pieces(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the texts of files, cut to the size of a trace."""
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        yield from (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.suffix in _READ and path.is_file())


def refusals(scans: Sequence[Scan]) -> None:
    """Print the false alarms and their kinds."""
    packages = _files(Path(sysconfig.get_paths()["purelib"]))[::_EVERY]
    ours = [path for folder in _OURS for path in _files(ROOT / folder)] + [*ROOT.glob("*.t*")]
    corpora = {
        "listed": INNOCENT,
        "this tree": list(pieces(ours)),
        "packages": list(pieces(packages)),
    }
    rows, kinds = [], Counter[str]()
    for name, texts in corpora.items():
        findings = [[scan(text) for text in texts] for scan in scans]
        refused = [sum(map(bool, results)) for results in findings]
        rows.append([name, f"{len(texts):,}", *(f"{n} ({n / len(texts):.2%})" for n in refused)])
        kinds.update(f"{name}: {kind}" for results in findings[0] for _, kind in results)
    print_table("Texts refused", ["", "texts", "ours", "detect-secrets"], rows)
    print_table(
        "Ours, by kind", ["", "lines"], [[kind, str(n)] for kind, n in sorted(kinds.items())]
    )


def _taken(text: str) -> float:
    started = time.perf_counter()
    screen_texts({"context_text": text, "solution_text": text})
    return time.perf_counter() - started


def times() -> None:
    """Print the time of two texts: a module, and a text made to be slow."""
    text = "".join(path.read_text(encoding="utf-8") for path in _files(ROOT / "shared"))
    rows = [
        [f"{length:,} characters of code", milliseconds([_taken(text[:length]) for _ in range(9)])]
        for length in (PIECE, LONGEST)
    ]
    hostile = {part: _taken((part * LONGEST)[:LONGEST]) for part in HOSTILE}
    slowest = sorted(hostile, key=lambda part: -hostile[part])[:3]
    rows += [[f"{LONGEST:,} of {part!r}", milliseconds([hostile[part]])] for part in slowest]
    print_table("Two texts each, ms", ["", "ms"], rows)


async def imports() -> None:
    """Print the processor time of the first scan in a process."""
    codes = {
        "nothing": "pass",
        "the refusal alone": "import shared.screening.screen",
        "phonenumbers": "import phonenumbers",
        "stdnum": "import stdnum.iban, stdnum.luhn, stdnum.us.ssn",
        "detect-secrets": "import detect_secrets.plugins.aws",
        "all, and a scan": "import shared.screening.screen as s; s.screen_texts({'a': 'text'})",
    }
    taken = await interleaved(
        {name: import_seconds(code) for name, code in codes.items()}, rounds=5
    )
    rows = [[name, milliseconds(values)] for name, values in taken.items()]
    print_table("Processor time of a process that imports, ms", ["", "ms"], rows)


def main() -> None:
    """Run all measurements."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    scans = (screened, detect_secrets_alone())
    misses(scans, rounds)
    refusals(scans)
    times()
    asyncio.run(imports())


if __name__ == "__main__":
    main()
