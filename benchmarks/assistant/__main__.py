"""Measures how much an assistant reads to answer a request, in Carrel and in plain files.

Usage: python -m benchmarks.assistant [CORPUS [COUNT]]

`requests.json` contains 30 everyday requests and 15 of a developer. Each lists the calls that a
sensible assistant would make, the commands that it would run on the same texts as Markdown files,
and the facts that answer the request, as regular expressions. The assistant stops as soon as it has
read all facts. With Carrel, both the text and the JSON of the answers must contain them.

The texts are the base of `benchmarks.everyday`, the sample's solved problems, the contents of
`material.json`, and COUNT (850) abstracts of CORPUS, a file such as SciFact's `corpus.jsonl`.
Without CORPUS, the abstracts consist of pseudo-words, in which no command finds anything by chance.

In the arguments of a call, `$FIELD TEXT` stands for a field of the innermost object that contains
the text, in the latest answer that has one. `@FILE` stands for the text of a file.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from mcp import Client
from mcp_types import TextContent
from pydantic_core import to_json

from benchmarks.assistant.texts import FILES, MATERIAL, read_fillers, write_texts
from benchmarks.database import use_database
from benchmarks.measurement import print_table
from benchmarks.scifact import ABSTRACTS
from tests.support.gateway_process import INLINE_MAIN, run_gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

REQUESTS: Final = Path(__file__).with_name("requests.json")
FILLER_COUNT: Final = 850
COLUMNS: Final = ("request", "calls", "text", "JSON", "answered", "commands", "bytes", "answered")
GOALS: Final = {"everyday": ["goal", "55", "85,000", "100,000", "30", "", "more", ""]}
GROUPS: Final = ("knowledge", "extractions", "traces", "tasks", "workspaces", "chatgpt")
SELECTIONS: Final = ("", "?readonly", "?tools=knowledge&readonly", *map("?tools={}".format, GROUPS))


class Assistant:
    """Makes the calls that answer requests.

    Attributes:
        sizes: The size of each answer in bytes, as text and as JSON, by tool.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.sizes: defaultdict[str, list[list[int]]] = defaultdict(list)

    async def make_calls(self, calls: Sequence[dict[str, Any]]) -> AsyncIterator[Sequence[str]]:
        """Make the calls, and yield each answer as text and as JSON."""
        earlier: list[Any] = []
        for call in calls:
            arguments = _fill(call["arguments"], earlier)
            result = await self._client.call_tool(call["tool"], arguments)
            text = "".join(block.text for block in result.content if isinstance(block, TextContent))
            content = result.structured_content
            earlier.insert(0, content or {})
            answer = text, text if content is None else to_json(content).decode()  # errors are text
            self.sizes[call["tool"]].append(_measure(*answer))
            yield answer


def _fill(value: Any, earlier: Sequence[Any]) -> Any:
    """Replace the references in arguments to earlier answers and to files."""
    match value:
        case dict():
            return {name: _fill(item, earlier) for name, item in value.items()}
        case list():
            return [_fill(item, earlier) for item in value]
        case str() if value.startswith("@"):
            return FILES[value[1:]]
        case str() if value.startswith("$"):
            field, _, text = value[1:].partition(" ")
            fields = (item for answer in earlier for item in _find(answer, field, text))
            return next(fields, None)
    return value


def _find(value: Any, field: str, text: str) -> Iterator[Any]:
    """Yield a field of all objects that contain a text, the innermost first."""
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from _find(item, field, text)
    if isinstance(value, dict) and field in value and text in to_json(value).decode():
        yield value[field]


async def run_commands(commands: Sequence[str], folder: Path) -> AsyncIterator[Sequence[str]]:
    """Run the commands in a folder, and yield the output of each."""
    for command in commands:
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", f"{command} 2>&1", cwd=folder, stdout=subprocess.PIPE
        )
        output, _ = await process.communicate()
        yield [output.decode()]


async def read(answers: AsyncIterator[Sequence[str]], facts: Sequence[str]) -> list[int]:
    """Read answers until every form of them contains all facts.

    Returns:
        The number of answers, their bytes in each form, and 1 if they contain the facts, else 0.
    """
    parts, forms, answered = [], [""], False
    async for answer in answers:
        parts.append(answer)
        forms = ["".join(form) for form in zip(*parts, strict=True)]
        answered = all(re.search(fact, form) for fact in facts for form in forms)
        if answered:
            break
    return [len(parts), *_measure(*forms), int(answered)]


def _measure(*texts: str) -> list[int]:
    return [len(text.encode()) for text in texts]


def _add(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _to_row(name: str, numbers: Sequence[int]) -> list[str]:
    return [name, *(f"{number:,}" for number in numbers)]


async def measure(endpoint: str, folder: Path) -> None:
    """Answer the requests both ways, and print the tables."""
    async with Client(endpoint) as client:
        async for _ in Assistant(client).make_calls(MATERIAL["calls"]):
            pass
        assistant = Assistant(client)
        for group, requests in json.loads(REQUESTS.read_text("utf-8")).items():
            numbers = {
                request["request"][:60]: [
                    *await read(assistant.make_calls(request["calls"]), request["facts"]),
                    *await read(
                        run_commands(request["commands"], folder),
                        request.get("facts_in_files", request["facts"]),
                    ),
                ]
                for request in requests
            }
            numbers["total"] = _add(list(numbers.values()))
            rows = [_to_row(*item) for item in numbers.items()]
            rows += [GOALS[group]] if group in GOALS else []
            print_table(f"{group} requests: bytes until they are answered", COLUMNS, rows)
    totals = {tool: [len(sizes), *_add(sizes)] for tool, sizes in assistant.sizes.items()}
    rows = [_to_row(*item) for item in sorted(totals.items(), key=lambda item: -item[1][-1])]
    print_table("Bytes of answers", ["tool", "calls", "text", "JSON"], rows)
    columns = ["address", "tools", "bytes", "for models", "instructions", "longest"]
    print_table("The list of tools", columns, [await describe(endpoint, q) for q in SELECTIONS])


async def describe(endpoint: str, query: str) -> list[str]:
    """Return the row of an address: the number of its tools, and their size as sent and as read."""
    async with Client(f"{endpoint}{query}") as client:
        tools = (await client.list_tools()).tools
        instructions = client.instructions or ""
    sent = (tool.model_dump_json(by_alias=True, exclude_none=True) for tool in tools)
    fields = {"name", "description", "input_schema"}
    models = [len(tool.model_dump_json(by_alias=True, include=fields).encode()) for tool in tools]
    numbers = len(tools), sum(_measure(*sent)), sum(models), len(instructions), max(models)
    return _to_row(f"/mcp{query}", numbers)


def main(corpus: Path | None, count: int) -> None:
    """Fill a base and a folder, start a gateway, and measure."""
    use_database()
    from infra.local.jobs import ingest_all, run_jobs
    from infra.local.sample.job import SAMPLE
    from shared.core.settings import Settings

    with TemporaryDirectory() as name:
        root = Path(name)
        write_texts(root / "origin", root / "files", read_fillers(corpus, count))
        ingest_all(root / "origin")
        run_jobs([SAMPLE], Settings())
        with run_gateway(INLINE_MAIN, {}, root / "gateway.log") as gateway:
            asyncio.run(measure(gateway.endpoint, root / "files"))


if __name__ == "__main__":
    path, number = (*sys.argv[1:], "", "")[:2]
    default = ABSTRACTS if ABSTRACTS.exists() else None
    main(Path(path) if path else default, int(number or FILLER_COUNT))
