"""SciFact, the data set of most benchmarks: its files, and the rows in them.

SciFact (https://github.com/allenai/scifact) has 5,183 abstracts of papers, claims about them, and
judgements which abstracts are relevant to a claim. It is not part of the project: put it into
`../shared/data`, next to the clone, in the format of BEIR, with the English halves of the local
embedder's vectors. The multilingual halves are computed once, and kept in the user's cache.
"""

from __future__ import annotations

import csv
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from infra.build.discovery import ROOT
from shared.ai._universal_encoder import UniversalEncoder
from shared.ai.vector_halves import join_halves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector

SCIFACT: Final = ROOT.parent / "shared" / "data" / "scifact"
"""The folder of the abstracts and the test claims."""
TRAIN: Final = SCIFACT.with_name("scifact-train")
"""The folder of the training claims."""
ABSTRACTS: Final = SCIFACT / "corpus.jsonl"
VECTORS: Final = SCIFACT / "minilm-int8.documents.npy"
"""The English halves of the vectors of the abstracts, in the same order."""
_CACHE: Final = Path.home() / ".cache" / "carrel" / "benchmarks"
"""The folder of the multilingual halves."""


def require_file(path: Path) -> None:
    """Exit if a file or folder of SciFact is missing, since a benchmark without it is skipped."""
    if not path.exists():
        print(f"Skipped: there is no SciFact in {path}.")
        sys.exit()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def load_vectors(folder: Path, name: str, texts: Sequence[str]) -> list[Vector]:
    """Load the local embedder's vectors of `queries` or `documents`, which have these texts."""
    english = np.load(folder / f"minilm-int8.{name}.npy")
    file = _CACHE / f"{folder.name}.{name}.npy"
    if not file.exists():
        print(f"Embedding {len(texts)} {name} of {folder.name} ...")
        encoder = UniversalEncoder()
        with ThreadPoolExecutor(2) as workers:
            vectors = np.array(list(workers.map(encoder.embed, texts)), np.float32)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, vectors)
    halves = zip(english.tolist(), np.load(file).tolist(), strict=True)
    return [join_halves(*pair) for pair in halves]


def read_relevance(folder: Path) -> dict[str, list[str]]:
    """Return the ids of the relevant abstracts of each claim, by the claim's id."""
    abstracts_by_claim: dict[str, list[str]] = {}
    with (folder / "qrels.tsv").open(encoding="utf-8") as rows:
        for claim, abstract, gain in csv.reader(rows, delimiter="\t"):
            if gain.isdigit() and int(gain) > 0:  # the heading has no number
                abstracts_by_claim.setdefault(claim, []).append(abstract)
    return abstracts_by_claim
