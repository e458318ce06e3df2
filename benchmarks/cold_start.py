"""The cost of a function's imports, compared with the libraries that it cannot do without.

Usage: python -m benchmarks.cold_start [ROUNDS]

The floor is a process that imports only those libraries: Firestore's client and the functions
framework, and for the gateway also `mcp`. Each import runs in a new process and is measured in CPU
time, which excludes waiting.

Most processes exit without teardown, because a function does not exit after its imports. The rows
"until exit" include teardown. They show what Carrel saves there, because it exempts imported
objects from garbage collection (`shared/core/cold_start.py`), also at exit.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from typing import Final

from benchmarks.measurement import (
    compute_ratio,
    format_milliseconds,
    make_cpu_measurement,
    measure_interleaved,
    print_table,
)
from infra.build.discovery import ROOT
from infra.build.functions import functions
from tests.support.gateway_process import ACCESS_SECRET

TARGET_RATIO: Final = 1.15
"""The CPU time that imports should take at most, relative to the floor. Nothing fails above it."""
ROUNDS: Final = 10
FUNCTION_FLOOR: Final = "import google.cloud.firestore, functions_framework"
GATEWAY_FLOOR: Final = "import mcp, google.cloud.firestore, functions_framework"
# structlog imports these packages if they are installed. Here, development tools install them; the
# bundles of tool functions and jobs do not contain them.
_HIDE_DEVELOPMENT_PACKAGES: Final = "import sys; sys.modules.update(rich=None, attr=None)\n"
# Replaces the functions with which Carrel pauses the collector by one that does nothing: `int`.
_KEEP_COLLECTOR_ON: Final = "import gc; gc.disable = gc.freeze = gc.enable = int; "
_EXIT_WITHOUT_TEARDOWN: Final = "\nimport os; os._exit(0)"
_WITHOUT_CONSOLE: Final = "import os; os.environ['CONSOLE'] = 'false'\n"
_FIRST_PAGE: Final = """
import asyncio, functions.gateway.console.app
from functions.gateway.console.rendering import render_page
render_page("error.html", title="", error=None, visit=None)
functions.gateway.console.rendering._load_templates().get_template("home.html")
"""
"""The first page without the calls of its tools: imports, templates, style sheet and script."""
_OWN_PACKAGES: Final = ("shared", "functions")


async def compare_imports(title: str, floor: str, programs: dict[str, str], rounds: int) -> None:
    """Measure the imports of functions, and print them as ratios to the floor.

    The first function is also measured with the garbage collector on, and until exit.

    Args:
        title: The title of the table.
        floor: The program that imports what the functions cannot do without.
        programs: The programs of the functions, by name.
        rounds: How often each program runs.
    """
    name, first = next(iter(programs.items()))
    without_teardown = {
        "floor": floor,
        **programs,
        f"{name}, collector on": _KEEP_COLLECTOR_ON + first,
    }
    until_exit = {"floor, until exit": floor, f"{name}, until exit": first}
    durations = await measure_interleaved(
        {
            label: make_cpu_measurement(program + _EXIT_WITHOUT_TEARDOWN)
            for label, program in without_teardown.items()
        }
        | {label: make_cpu_measurement(program) for label, program in until_exit.items()},
        rounds,
    )
    rows = []
    for label, seconds in durations.items():
        baseline = durations["floor, until exit" if label in until_exit else "floor"]
        rows.append(
            [label, format_milliseconds(seconds), f"{compute_ratio(seconds, baseline):.2f}"]
        )
    print_table(f"{title}; target: at most {TARGET_RATIO}", ["CPU time", "ms", "ratio"], rows)
    print_slowest_imports(floor, first)


def print_slowest_imports(floor: str, function: str) -> None:
    """Print the imports that a function adds to the floor: the slowest packages and own modules."""
    floor_times = measure_module_times(floor)
    packages: Counter[str] = Counter()
    own_modules: Counter[str] = Counter()
    for module, microseconds in measure_module_times(function).items():
        if module in floor_times:
            continue
        packages[module.partition(".")[0]] += microseconds
        if module.startswith(_OWN_PACKAGES):
            own_modules[module] = microseconds
    for heading, times in (("package", packages), ("own module", own_modules)):
        print_table(
            "Slowest imports beyond the floor (elapsed time of each module's own body, traced)",
            [heading, "ms"],
            [[name, f"{time / 1000:.1f}"] for name, time in times.most_common(5)],
        )


def measure_module_times(code: str) -> dict[str, int]:
    """Return the microseconds of each module's own body, the least of three runs."""
    first, *others = (_trace_imports("import gc; gc.disable(); " + code) for _ in range(3))
    return {
        module: min(microseconds, *(run.get(module, microseconds) for run in others))
        for module, microseconds in first.items()
    }


def _trace_imports(code: str) -> dict[str, int]:
    """Return the microseconds of each module's body without its imports, in one run.

    `python -X importtime` prints lines of "import time: self | cumulative | module".
    """
    command = [sys.executable, "-X", "importtime", "-c", code]
    report = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stderr
    rows = [
        line.partition(":")[2].split("|") for line in report.splitlines() if line.count("|") == 2
    ]
    return {
        module.strip(): int(self_time)
        for self_time, _, module in rows
        if self_time.strip().isdigit()  # the heading has no number
    }


async def compare_console(gateway: str, rounds: int) -> None:
    """Measure the gateway without the console, with it, and with the console's first page.

    The console adds routes to a cold start. Its other code is imported with the first page.
    """
    durations = await measure_interleaved(
        {
            label: make_cpu_measurement(code + _EXIT_WITHOUT_TEARDOWN)
            for label, code in {
                "CONSOLE=false": _WITHOUT_CONSOLE + gateway,
                "CONSOLE=true": gateway,
                "CONSOLE=true, with the first page": gateway + _FIRST_PAGE,
            }.items()
        },
        rounds,
    )
    baseline = durations["CONSOLE=false"]
    rows = [
        [label, format_milliseconds(seconds), f"{compute_ratio(seconds, baseline):.2f}"]
        for label, seconds in durations.items()
    ]
    print_table("The gateway and the console", ["CPU time", "ms", "ratio"], rows)


async def main(rounds: int) -> None:
    """Measure the functions of tools, the gateway, and jobs."""
    programs_by_kind: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for function in functions():
        prefix = "" if function.kind == "gateway" else _HIDE_DEVELOPMENT_PACKAGES
        programs_by_kind[function.kind][function.name] = prefix + function.main
    [gateway] = programs_by_kind["gateway"].values()
    await compare_imports("Tools", FUNCTION_FLOOR, programs_by_kind["tool"], rounds)
    await compare_imports("Gateway", GATEWAY_FLOOR, programs_by_kind["gateway"], rounds)
    await compare_console(gateway, rounds)
    await compare_imports("Jobs, for information", FUNCTION_FLOOR, programs_by_kind["job"], rounds)


if __name__ == "__main__":
    os.environ["ACCESS_SECRETS"] = json.dumps([ACCESS_SECRET])  # required by the gateway
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
