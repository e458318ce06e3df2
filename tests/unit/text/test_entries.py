"""The entries of logs and lists are found by their first lines."""

from itertools import pairwise

import pytest

from shared.text.entries import find_entries

LOGS = {
    "python": """\
2026-03-04 09:33:42,002 INFO  [worker-1] jobs Finished job 4032
2026-03-04 09:33:44,881 ERROR [worker-2] payments Charge failed
Traceback (most recent call last):
  File "payments.py", line 118, in charge
TimeoutError: gateway.example
2026-03-04 09:33:51,700 INFO  [worker-3] jobs Finished job 4033
""",
    "ISO 8601": "2026-03-07T12:21:44.002Z [7] a\n2026-03-07T12:21:45Z [8] b\n",
    "syslog": """\
Mar  4 10:00:43 nas systemd[1]: Started Session 100.
Mar  4 10:01:35 nas smartd[812]: Device: /dev/sdb, 8 unreadable sectors
""",
    "web server": """\
127.0.0.1 - - [10/Oct/2026:13:55:36 +0200] "GET / HTTP/1.1" 200 2326
127.0.0.1 - - [10/Oct/2026:13:55:38 +0200] "GET /a HTTP/1.1" 404 12
""",
    "level first": "WARNING: the disk is almost full\nERROR: the disk is full\n",
    "JSON": '{"level": "info", "msg": "a"}\n{"level": "error", "msg": "b"}\n',
    "chat": "[04.03.26, 18:16:11] Mira: Bring cash.\n[04.03.26, 18:17:11] Tom: Ok.\n",
    "subtitles": "00:12 Welcome back.\nto the show\n00:15 Thank you.\n",
}
LISTS = {
    "bullets": "Minutes of 4 March\n- The roof leaks.\n  - Jonas asks for offers.\n- New lock.\n",
    "numbers": "1. Retry once.\n   Then stop.\n2. Count.\n10. Predict.\n",
    "table": "| city | hotel |\n|---|---|\n| Porto | Casa |\n| Faro | Inn |\n| Evora | Sol |\n",
    "CSV": 'id,item,price\n1,"drill",5\n2,"paint, white",7\n3,rake,1\n4,hose,2\n5,saw,9\n',
}
PROSE = {
    "wrapped": "In May, we went north,\nand later, as it rained,\nwe stayed at home. In 2026, at\n"
    "10:30 we left, had lunch, and slept.\n",
    "one item": "Only this:\n- one item\n",
    "record": "Name: Ann Helm\nBorn: 1970-01-01\nTown: Kiel\n",
    "code": "for row in rows:\n    total += row[0]\n    if total > 9:\n        break\n",
}


def split_into_entries(text: str) -> list[str]:
    """Cut a paragraph before each entry but the first."""
    edges = [0, *find_entries(text), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize("name", LOGS)
def test_each_event_of_a_log_is_an_entry(name: str) -> None:
    entries = split_into_entries(LOGS[name])
    assert len(entries) == {"python": 3}.get(name, 2)
    assert "".join(entries) == LOGS[name]
    assert [entry for entry in entries if "Traceback" in entry] == [
        entry for entry in entries if "TimeoutError" in entry
    ]


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("bullets", "Minutes of 4 March\n- The roof leaks.\n  - Jonas asks for offers.\n", "- New"),
        ("numbers", "1. Retry once.\n   Then stop.\n", "2. Count."),
        ("table", "| city | hotel |\n|---|---|\n| Porto | Casa |\n", "| Faro"),
        ("CSV", 'id,item,price\n1,"drill",5\n', '2,"paint, white"'),
    ],
)
def test_what_stands_above_the_first_item_belongs_to_it(name: str, first: str, second: str) -> None:
    entries = split_into_entries(LISTS[name])
    assert entries[0] == first
    assert entries[1].startswith(second)
    assert all(entry.count("\n") == 1 for entry in entries[1:])


@pytest.mark.parametrize("text", PROSE.values(), ids=PROSE)
def test_prose_records_and_code_have_no_entries(text: str) -> None:
    assert split_into_entries(text) == [text]


def test_each_paragraph_is_read_by_itself() -> None:
    text = "- a\n\n- b\n\n- c\n- d\n"
    assert [text[offset:] for offset in find_entries(text)] == ["- d\n"]
