"""The Firestore emulator that a benchmark runs on."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.emulator import run_emulator
from tests.support.emulator_programs import EmulatorError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def use_emulator() -> Iterator[None]:
    """Run an emulator for this process and its children until the block ends.

    If the emulator cannot start, the benchmark exits with the reason.
    """
    try:
        with run_emulator() as host:
            os.environ["FIRESTORE_EMULATOR_HOST"] = host
            yield
    except EmulatorError as error:
        sys.exit(str(error))
