"""A fake Vertex AI whose vectors and answers are made of the words of the text.

The results are the same on any machine: vectors are counts of hashed words, and answers consist of
the passage's own sentences.
"""

import hashlib
import re
from typing import Any, Final

from tests.support.fakes.vertex import (
    CUT_CONNECTION,
    NO_CANDIDATES,
    Call,
    FakeVertex,
    Reply,
    make_error_reply,
    make_json_reply,
    make_text_reply,
    make_vector_reply,
)

_FRIDAY: Final = "friday"
"""A word in two highlights of different sources.

The model reports the same warning for both, so the second is a duplicate.
"""
_TOPICS: Final = ("Tests", "code-review", "incidents", "schemas", "APIs", "benchmarks", "writing")
"""The topics of findings: a text is about a topic if it contains the topic's first four letters."""
_TRANSIENT_FAULTS: Final = (
    make_error_reply(429, "RESOURCE_EXHAUSTED"),
    make_error_reply(500, "INTERNAL"),
    CUT_CONNECTION,
)
"""Replies to any request that a client repeats."""
_INVALID_ANSWERS: Final = (
    make_text_reply("{"),
    make_json_reply([]),
    NO_CANDIDATES,
    make_text_reply('{"summary": "A', finish="MAX_TOKENS"),
)
"""Replies that do not match the requested schema."""
_WORD: Final = re.compile(r"\w{5,}")
"""A word of five or more characters. Shorter words are in every text, and say little about it."""
_SENTENCE: Final = re.compile(r"[^.!?\n]+[.!?]+")
_COUNTS_PER_WORD: Final = 8
"""The number of dimensions in which a word counts."""
_NEVER: Final = re.compile(r"\b(never|nicht)\b", re.IGNORECASE)
"""A word of sentences that are reported as warnings, in English or German."""


class WordVertex(FakeVertex):
    """A fake Vertex AI on a free port. Texts that share words get similar vectors.

    Attributes:
        flaky: Whether the first request for most texts fails: with a rate limit, an internal error,
            a cut connection or an invalid answer. The second request succeeds.
    """

    def __init__(self) -> None:
        """Answer requests for cards, cluster names and findings with words of the text."""
        super().__init__()
        self.answers |= {
            "GeneratedCard": _make_card,
            "ClusterName": _make_cluster_name,
            "Findings": _make_findings,
        }
        self.flaky = False
        self._first_calls: dict[tuple[str, str], Call] = {}

    @property
    def generated(self) -> int:
        """The number of requests to the language model."""
        return sum(call.generates for call in list(self.calls))

    def arrive(self, call: Call) -> Reply:
        """Record a request and choose its reply."""
        reply = super().arrive(call)
        if self.flaky and self._first_calls.setdefault((call.path, call.text), call) is call:
            faults = (
                (*_TRANSIENT_FAULTS, *_INVALID_ANSWERS) if call.generates else _TRANSIENT_FAULTS
            )
            reply = (Reply(), *faults)[len(call.text) % (1 + len(faults))]
        if call.generates or reply != Reply():
            return reply
        return make_vector_reply(
            _count_hashed_words(call.text, call.config["outputDimensionality"])
        )


def _count_hashed_words(text: str, dimension: int) -> list[int]:
    """Return a vector of hashed word counts, as integers that are the same on every machine."""
    values = [0] * dimension
    for word in _WORD.findall(text.casefold()):
        digest = hashlib.sha256(word.encode()).digest()
        for start in range(0, 2 * _COUNTS_PER_WORD, 2):
            dimension_index = int.from_bytes(digest[start : start + 2], "big") % dimension
            values[dimension_index] += 1 if digest[start + 2 * _COUNTS_PER_WORD] % 2 else -1
    return values if any(values) else [1] * dimension


def _make_card(text: str) -> dict[str, Any]:
    """Return a card with the longest sentence as its summary, and the first three as takeaways."""
    title, _, passage = text.partition("\n\n")
    lines = _find_sentences(passage)
    summary = f"Of {title.casefold()}, most is said by: {max(lines, key=len)}"
    takeaways = [f"{number}. {line}"[:300] for number, line in enumerate((lines * 3)[:3], start=1)]
    return {"summary": summary[:400], "takeaways": takeaways}


def _make_cluster_name(text: str) -> dict[str, Any]:
    """Return a cluster name made of the words that its passages share."""
    keywords = text.partition("\n")[0].partition(": ")[2].split(", ")
    name = " ".join(["All about", *" and ".join(keywords[:2]).split()][:6])
    return {"name": name, "description": f"It is about {keywords[0]}.", "keywords": keywords[:8]}


def _make_findings(text: str) -> dict[str, Any]:
    """Return findings that quote a passage's sentences; some get a false quote."""
    lines = _find_sentences(text.partition("\n\n")[2])
    decisions = [_make_finding(line, lines, _make_decision) for line in lines if line.endswith("?")]
    warnings = [_make_finding(line, lines, _make_warning) for line in lines if _NEVER.search(line)]
    fridays = [
        _make_finding(line, lines, _make_friday) for line in lines if _FRIDAY in line.casefold()
    ]
    methodologies = [
        _make_finding(line, lines, _make_methodology) for line in lines if line.startswith("First")
    ]
    patterns = [_make_finding(line, lines, _make_pattern) for line in lines if " because " in line]
    invented = [_make_finding("Rubber ducks are banned here.", lines, _make_pattern)] * (
        len(lines) % 5 == 0
    )
    return {
        "decisions": decisions[:1],
        "warnings": warnings[:1] + fridays[:1],
        "patterns": patterns[:1] + invented,
        "methodologies": methodologies[:1],
    }


def _find_sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [item.strip() for item in _SENTENCE.findall(text) if len(item.strip()) > 20] or [text]


def _make_finding(line: str, lines: list[str], content: Any) -> dict[str, Any]:
    words = line.casefold()
    topics = [item for item in _TOPICS if item.casefold()[:4] in words] or ["Software Craft"]
    confidence = round(0.5 + len(" ".join(lines)) % 50 / 100, 2)
    return {
        "quote": line,
        "content": content(line, lines),
        "topics": topics,
        "confidence": confidence,
    }


def _make_decision(line: str, lines: list[str]) -> dict[str, Any]:
    others = [item[:300] for item in lines if item != line]
    return {
        "question": line[:300],
        "options": others[:2],
        "considerations": others[2:3],
        "recommended_approach": lines[-1],
    }


def _make_warning(line: str, lines: list[str]) -> dict[str, Any]:
    return {"title": _take_few_words(line), "description": line, "symptoms": [lines[0][:300]]}


def _make_friday(_line: str, _lines: list[str]) -> dict[str, Any]:
    description = "What happens on a Friday stays until Monday, and by then the trail is cold."
    return {"title": "Fridays end the week", "description": description}


def _make_methodology(line: str, lines: list[str]) -> dict[str, Any]:
    steps = [
        {"order": number, "title": _take_few_words(item), "description": item}
        for number, item in enumerate(lines[:4], start=1)
    ]
    return {"name": _take_few_words(line), "steps": steps}


def _make_pattern(line: str, lines: list[str]) -> dict[str, Any]:
    return {"name": _take_few_words(line), "problem": lines[0], "solution": line}


def _take_few_words(line: str) -> str:
    return " ".join(line.split()[:6])
