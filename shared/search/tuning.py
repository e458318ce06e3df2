"""What was measured of each embedding model, and decides how its similarities are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.retrieval.fusion import DENSE_WEIGHT
from shared.retrieval.relevance import MINILM, UNMEASURED, Calibration


@dataclass(frozen=True, slots=True)
class Tuning:
    """How to use a model's similarities.

    Attributes:
        dense_weight: What a similarity counts for beside BM25, from 0 to 1.
        calibration: From where on it speaks for a match.
        noise: How far apart the similarities of texts lie that have nothing to do with a question.
    """

    dense_weight: float
    calibration: Calibration
    noise: float = 0.0


_DEFAULT: Final = Tuning(dense_weight=DENSE_WEIGHT, calibration=UNMEASURED)
_MEASURED: Final = {"all-MiniLM-L6-v2-onnx-int8": Tuning(DENSE_WEIGHT, MINILM, noise=0.3)}


def tuning(model: str) -> Tuning:
    """What was measured of this model; cautious values for one that was not."""
    return _MEASURED.get(model, _DEFAULT)
