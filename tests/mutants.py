"""Makes random mutants of the product, and lists those that survive all quick tests.

`make mutants` runs it. A mutant is the product with one small change. A first run of the tests, for
which this module is also a pytest plugin, records which tests execute each line, so that a mutant
meets these alone, in a copy of the checkout. Survivors are for a reader: a mutant may be equivalent
to the original, or show a boundary that no test guards.
"""

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

from coverage import Coverage, CoverageData

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = (
    "shared/search",
    "shared/index",
    "shared/runtime",
    "infra/local/embedded_firestore",
)
"""What a sample is drawn from unless a run names other packages."""
TESTS: Final = ("tests/unit", "tests/emulator", "tests/contract")
"""The tests that run in pytest's own process, where a changed line is seen."""
MAX_TESTS_PER_MUTANT: Final = 60
"""A mutant meets this many tests at most, of those that execute its line: the most specific ones,
which execute the fewest lines of the mutated packages."""
SECONDS_PER_MUTANT: Final = 120
"""A mutant whose tests take longer counts as dead, because it made something endless."""
OPPOSITES: Final = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


class Mutation(NamedTuple):
    """A change of one expression or statement.

    Attributes:
        file: The path from the root.
        line: The line on which the changed code begins.
        start: Where it begins, in bytes of the file.
        end: Where it ends.
        after: What replaces it.
    """

    file: str
    line: int
    start: int
    end: int
    after: str

    def apply(self, source: bytes) -> bytes:
        """Return the changed file."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def describe(self, source: bytes) -> str:
        """Return where the code is, what it is, and what replaces it."""
        before = source[self.start : self.end].decode()
        return f"{self.file}:{self.line}\n  - {before}\n  + {self.after}"


def find_mutations(file: str, source: bytes) -> Iterator[Mutation]:
    """Yield every mutation of a module that this tool knows."""
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    nodes: Iterator[Any] = ast.walk(ast.parse(source))
    for node in nodes:
        for after in _list_replacements(node):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            yield Mutation(file, node.lineno, start, end, after)


def _list_replacements(node: Any) -> Iterator[str]:
    """Yield each code that may replace a node."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            opposite = OPPOSITES[type(operator)]
            yield f"({ast.unparse(left)} {opposite} {ast.unparse(right)})"
        case ast.BoolOp(op=operator, values=values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield f"({ast.unparse(ast.BoolOp(other, values))})"
            yield f"({ast.unparse(values[0])})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value)):
            yield str(value + 1)
        case ast.BinOp(op=ast.Add() | ast.Sub() as operator, left=left, right=right):
            sign = ast.Sub() if isinstance(operator, ast.Add) else ast.Add()
            yield f"({ast.unparse(ast.BinOp(left, sign, right))})"
        case ast.Expr(value=ast.Await() | ast.Call()):
            yield "pass"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return None"
        case ast.Break() | ast.Continue() | ast.Raise():
            yield "pass"


def pytest_runtest_logstart(nodeid: str) -> None:
    """Record the lines that are executed from now on under the name of a test."""
    if coverage := Coverage.current():
        coverage.switch_context(nodeid)


def main() -> None:
    """Print the mutants that survive, and how many there were. The seed repeats a sample."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="what is mutated")
    parser.add_argument(
        "--minutes",
        type=float,
        default=30,
        help="how long mutants are tested, after all tests ran once",
    )
    parser.add_argument("--seed", type=int, default=43, help="chooses the mutants")
    options = parser.parse_args()
    generator = random.Random(options.seed)  # noqa: S311 - no secret
    with copy_checkout() as folder:
        tests_by_line = record_tests_by_line(folder, options.packages)
        mutations = list_mutations(folder, tests_by_line)
        if not mutations:
            raise SystemExit(f"No test executes a line of {' '.join(options.packages)}.")
        generator.shuffle(mutations)
        file, line = mutations[0].file, mutations[0].line
        require_that_tests_notice(folder, file, tests_by_line[file, line])
        print(f"seed {options.seed}: {len(mutations)} mutants are possible", flush=True)
        end = time.monotonic() + 60 * options.minutes
        tested = survived = 0
        for mutation in mutations:
            if time.monotonic() > end:
                break
            tests = tests_by_line[mutation.file, mutation.line]
            tested += 1
            source = (folder / mutation.file).read_bytes()
            changed = mutation.apply(source)
            if survives(folder, mutation.file, changed, tests[:MAX_TESTS_PER_MUTANT]):
                survived += 1
                print(mutation.describe(source), flush=True)
        print(f"seed {options.seed}: {survived} of {tested} mutants survived")


def list_mutations(folder: Path, lines: Collection[tuple[str, int]]) -> list[Mutation]:
    """Return every mutation of these lines, which are given as file and number."""
    return [
        mutation
        for file in sorted({file for file, _ in lines})
        for mutation in find_mutations(file, (folder / file).read_bytes())
        if (file, mutation.line) in lines
    ]


@contextmanager
def copy_checkout() -> Iterator[Path]:
    """Yield a copy of the checkout, so that a run that is killed leaves the checkout as it is."""
    command = ["git", "-C", str(ROOT), "ls-files"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="carrel-mutants-") as name:
        folder = Path(name)
        for file in listing.splitlines():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, folder / file)
        yield folder


def record_tests_by_line(
    folder: Path, packages: Collection[str]
) -> dict[tuple[str, int], list[str]]:
    """Run all tests; return those that execute a line, by file and line, the most specific first.

    Lines executed only at import belong to no test, so they are never mutated.
    """
    data_file = folder / "recorded"
    configuration = folder / "recorded.ini"
    included = "".join(f"\n  {package}/*" for package in packages)
    configuration.write_text(f"[run]\ndata_file = {data_file}\ninclude ={included}\n")
    recorder = ["coverage", "run", f"--rcfile={configuration}", "-m"]
    if run_pytest(folder, recorder, ["-p", "tests.mutants", *TESTS], output=None) != 0:
        raise SystemExit("A test fails before anything is mutated.")
    data = CoverageData(str(data_file))
    data.read()
    tests_by_line = {
        (str(Path(file).relative_to(folder)), line): tests
        for file in data.measured_files()
        for line, contexts in data.contexts_by_lineno(file).items()
        if (tests := [name for name in contexts if name])
    }
    line_counts = Counter(name for tests in tests_by_line.values() for name in tests)
    for tests in tests_by_line.values():
        tests.sort(key=lambda name: (line_counts[name], name))
    return tests_by_line


def require_that_tests_notice(folder: Path, file: str, tests: list[str]) -> None:
    """Stop unless these tests fail on a broken module, and pass on the unchanged one."""
    if survives(folder, file, b"raise AssertionError", tests):
        raise SystemExit("A planted mutant survived: the tests do not run the copy.")
    if not survives(folder, file, (folder / file).read_bytes(), tests):
        raise SystemExit(f"These tests fail without a mutation: {' '.join(tests)}")


def survives(folder: Path, file: str, changed: bytes, tests: list[str]) -> bool:
    """Return whether all these tests pass with another content of a file, which is restored."""
    path = folder / file
    original = path.read_bytes()
    path.write_bytes(changed)
    try:
        return run_pytest(folder, [], ["-x", *tests], seconds=SECONDS_PER_MUTANT) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_bytes(original)


def run_pytest(
    folder: Path,
    runner: list[str],
    arguments: list[str],
    *,
    seconds: float | None = None,
    output: int | None = subprocess.DEVNULL,
) -> int:
    """Run pytest in the copy, in one process; return its exit status."""
    command = [sys.executable, "-B", "-m", *runner, "pytest", "-q", "-n0", "-m", "not slow"]
    result = subprocess.run(
        [*command, "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        stdout=output,
        stderr=output,
        timeout=seconds,
        check=False,
    )
    return result.returncode


if __name__ == "__main__":
    main()
