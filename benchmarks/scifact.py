"""SciFact, the data set of most benchmarks: its files, and the rows in them.

SciFact (https://github.com/allenai/scifact) has 5,183 abstracts of papers, claims about them, and
judgements which abstracts are relevant to a claim. It is not part of the project: put it into
`../shared/data`, next to the clone, in the format of BEIR, with the vectors of the local embedder.
"""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Any, Final

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCIFACT: Final = ROOT.parent / "shared" / "data" / "scifact"
"""The folder of the abstracts and the test claims."""
TRAIN: Final = SCIFACT.with_name("scifact-train")
"""The folder of the training claims."""
ABSTRACTS: Final = SCIFACT / "corpus.jsonl"
VECTORS: Final = SCIFACT / "minilm-int8.documents.npy"
"""The vectors of the abstracts, in the same order."""


def require_file(path: Path) -> None:
    """Exit if a file or folder of SciFact is missing, since a benchmark without it is skipped."""
    if not path.exists():
        print(f"Skipped: there is no SciFact in {path}.")
        sys.exit()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_relevance(folder: Path) -> dict[str, list[str]]:
    """Return the ids of the relevant abstracts of each claim, by the claim's id."""
    abstracts_by_claim: dict[str, list[str]] = {}
    with (folder / "qrels.tsv").open(encoding="utf-8") as rows:
        for claim, abstract, gain in csv.reader(rows, delimiter="\t"):
            if gain.isdigit() and int(gain) > 0:  # the heading has no number
                abstracts_by_claim.setdefault(claim, []).append(abstract)
    return abstracts_by_claim
