"""How often the prompt hook of the plugin interrupts, and how often it helps.

Usage: CARREL_URL=http://localhost:8080/mcp python -m benchmarks.recall, with a running Carrel that
has the sample. It asks 200 coding prompts that nothing in the sample answers, on which the hook
should be silent (goal: 95 %), and the questions of the sample, which it should answer.
"""

import json
import time
from pathlib import Path
from statistics import median

from infra.claude_plugin.hooks import recall

HERE = Path(__file__).parent


def main() -> None:
    """Ask, and print a line for each kind of prompts."""
    prompts = (HERE / "coding_prompts.txt").read_text("utf-8").splitlines()
    answered = json.loads((HERE / "questions.json").read_text("utf-8"))["sample"]["answered"]
    questions = [question for half in answered.values() for question in half]
    for name, texts in (("coding prompts", prompts), ("the sample's questions", questions)):
        spoken, times = 0, []
        for text in texts:
            start = time.perf_counter()
            spoken += bool(recall.recall_prompt(text))
            times.append(time.perf_counter() - start)
        print(
            f"{name}: {spoken} of {len(texts)} got passages, median {1000 * median(times):.0f} ms"
        )


if __name__ == "__main__":
    main()
