"""Serves a function as `infra/local/serve_function.py` does, and records its queries.

The Python of the function's own environment runs this program. It cannot import the checkout.
"""

import runpy
import sys
from pathlib import Path

_CHECKOUT = Path(__file__).parents[2]

if __name__ == "__main__":
    sys.path.insert(0, str(_CHECKOUT))
    from tests.support.query_recorder import record_to_directory

    sys.path.remove(str(_CHECKOUT))
    record_to_directory()
    runpy.run_path(str(_CHECKOUT / "infra" / "local" / "serve_function.py"), run_name="__main__")
