"""The cost of a function's imports, compared with the libraries that it cannot do without.

Usage: python -m benchmarks.cold_start [ROUNDS]

Each import runs in a new process and is measured in CPU time, which excludes waiting. The process
exits without teardown, because a function does not exit after its imports. The rows "until exit"
include teardown: there, not collecting the imports' garbage (`shared/core/cold_start.py`) saves
more time than a cold start takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from benchmarks.measurement import interleaved, milliseconds, print_table, ratio
from infra.build.discovery import ROOT
from infra.build.functions import functions
from tests.support.gateway_process import SECRET

if TYPE_CHECKING:
    from benchmarks.measurement import Measurement

MAX_RATIO: Final = 1.15
ROUNDS: Final = 10
FUNCTION_FLOOR: Final = "import google.cloud.firestore, functions_framework"
GATEWAY_FLOOR: Final = "import mcp, google.cloud.firestore, functions_framework"
# structlog imports these packages if they are installed. Development tools install them here, but
# bundles of tools and jobs do not contain them.
_HIDE_DEVELOPMENT_PACKAGES: Final = "import sys; sys.modules.update(rich=None, attr=None)\n"
_KEEP_COLLECTOR_ON: Final = "import gc; gc.disable = gc.freeze = gc.enable = int; "
_EXIT_WITHOUT_TEARDOWN: Final = "\nimport os; os._exit(0)"
_WITHOUT_CONSOLE: Final = "import os; os.environ['CONSOLE'] = 'false'\n"
_FIRST_PAGE: Final = """
import asyncio, functions.gateway.console.app
from functions.gateway.console.rendering import render_page
render_page("error.html", title="", error=None, visit=None)
functions.gateway.console.rendering._templates().get_template("home.html")
"""
"""The first page without the calls of its tools: imports, templates, style sheet and script."""
_OWN_PACKAGES: Final = ("shared", "functions")


def import_seconds(code: str) -> Measurement:
    """Measure the CPU time of a process that runs `code`."""

    async def measured() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=ROOT)
        if await process.wait():
            raise RuntimeError(f"This code failed: {code}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return measured


async def compare(title: str, floor: str, functions: dict[str, str], rounds: int) -> None:
    """Measure the imports of functions, and print them as ratios to the floor.

    The first function is also measured with the garbage collector on, and until exit.
    """
    name, first = next(iter(functions.items()))
    codes = {"floor": floor, **functions, f"{name}, collector on": _KEEP_COLLECTOR_ON + first}
    until_exit = {"floor, until exit": floor, f"{name}, until exit": first}
    durations = await interleaved(
        {label: import_seconds(code + _EXIT_WITHOUT_TEARDOWN) for label, code in codes.items()}
        | {label: import_seconds(code) for label, code in until_exit.items()},
        rounds,
    )
    rows = []
    for label, seconds in durations.items():
        baseline = durations["floor, until exit" if label in until_exit else "floor"]
        rows.append([label, milliseconds(seconds), f"{ratio(seconds, baseline):.2f}"])
    print_table(f"{title}; at most {MAX_RATIO}", ["CPU time", "ms", "ratio"], rows)
    print_slowest_imports(floor, first)


def print_slowest_imports(floor: str, function: str) -> None:
    """Print the slowest imports beyond the floor: by package, and Carrel's own modules."""
    floor_times = self_times(floor)
    packages: Counter[str] = Counter()
    own_modules: Counter[str] = Counter()
    for module, microseconds in self_times(function).items():
        if module in floor_times:
            continue
        packages[module.partition(".")[0]] += microseconds
        if module.startswith(_OWN_PACKAGES):
            own_modules[module] = microseconds
    slowest = zip(packages.most_common(5), own_modules.most_common(5), strict=False)
    print_table(
        "Slowest imports beyond the floor (elapsed time of each module's own body, traced)",
        ["package", "ms", "own module", "ms"],
        [
            [package, f"{package_time / 1000:.1f}", module, f"{module_time / 1000:.1f}"]
            for (package, package_time), (module, module_time) in slowest
        ],
    )


def self_times(code: str) -> dict[str, int]:
    """Return the microseconds that each module's own body takes, the minimum of three runs."""
    first, *others = (_import_report("import gc; gc.disable(); " + code) for _ in range(3))
    return {
        module: min(microseconds, *(run.get(module, microseconds) for run in others))
        for module, microseconds in first.items()
    }


def _import_report(code: str) -> dict[str, int]:
    """Parse `python -X importtime`: lines of "import time: self | cumulative | module"."""
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
    """Measure the gateway with the console, without it, and with its first page.

    The console adds routes to a cold start, and its code is imported with the first page.
    """
    durations = await interleaved(
        {
            label: import_seconds(code + _EXIT_WITHOUT_TEARDOWN)
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
        [label, milliseconds(seconds), f"{ratio(seconds, baseline):.2f}"]
        for label, seconds in durations.items()
    ]
    print_table("The gateway and the console", ["CPU time", "ms", "ratio"], rows)


async def main(rounds: int) -> None:
    """Measure tools, the gateway and jobs."""
    codes: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for function in functions():
        prefix = "" if function.kind == "gateway" else _HIDE_DEVELOPMENT_PACKAGES
        codes[function.kind][function.name] = prefix + function.main
    await compare("Tools", FUNCTION_FLOOR, codes["tool"], rounds)
    await compare("Gateway", GATEWAY_FLOOR, codes["gateway"], rounds)
    await compare_console(codes["gateway"]["gateway"], rounds)
    await compare("Jobs, for information", FUNCTION_FLOOR, codes["job"], rounds)


if __name__ == "__main__":
    os.environ["ACCESS_SECRETS"] = json.dumps([SECRET])  # required by the gateway
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
