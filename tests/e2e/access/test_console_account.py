"""The page `/you` of the console shows the user's keys, connected programs and usage."""

import httpx2

from shared.core.caller import Scope
from tests.support.access import Carrel, MakeKey, get_call_status, post_form
from tests.support.console_app import parse_page, read_texts
from tests.support.console_person import SESSION_COOKIE, Person
from tests.support.gateway_process import RunningGateway


def parse_key_id(key: str) -> str:
    """Return the public part of a key, as in `carrel_ID_SECRET`."""
    return key.split("_")[1]


def test_a_person_sees_their_own_keys_and_programs(url: str, make_key: MakeKey) -> None:
    key, other_key = make_key("owns.keys"), make_key("owns.others")
    person = Person(url).sign_in(key, "/you")
    assert person.path == "/you"
    assert person.texts("h1") == ["owns.keys"]
    [keys] = [text for text in person.texts("section") if text.startswith("Keys")]
    assert parse_key_id(key) in keys
    assert parse_key_id(other_key) not in person.response.text
    assert key not in person.response.text
    assert person.texts(".with-button strong") == ["The console", "tests"]
    assert "in this browser" in person.texts(".rows")[0]


def test_a_revoked_key_ends_its_calls_and_sessions(url: str, make_key: MakeKey) -> None:
    key, lost_key = make_key("owns.lost"), make_key("owns.lost")
    other_browser = Person(url).sign_in(lost_key)
    person = Person(url).sign_in(key, "/you")
    assert get_call_status(url, lost_key) == 200
    response = post_form(person, "/you", action="revoke_key", key_id=parse_key_id(lost_key))
    assert response.status_code == 200
    [message] = read_texts(parse_page(response), "[role=status] p")
    assert message.startswith("Revoked the key")
    assert get_call_status(url, lost_key) == 401
    assert other_browser.open("/").texts("h1") == ["Sign in"]
    assert get_call_status(url, key) == 200


def test_a_disconnected_program_has_no_access(url: str, make_key: MakeKey) -> None:
    key = make_key("owns.programs")
    other_browser = Person(url).sign_in(key)
    person = Person(url).sign_in(key, "/you").submit("Disconnect The console")
    assert person.texts("[role=status] p") == ["Disconnected. The program has no access any more."]
    assert "Disconnect" not in person.buttons
    assert other_browser.open("/").texts("h1") == ["Sign in"]
    assert person.open("/").texts(".who a") == ["owns.programs"]


def test_a_user_cannot_revoke_another_users_credential(url: str, make_key: MakeKey) -> None:
    victim_key = make_key("owns.victim")
    victim = Person(url).sign_in(victim_key, "/you")
    grant_id = victim.http.cookies[SESSION_COOKIE].partition(".")[0]
    attacker = Person(url).sign_in(make_key("owns.attacker"), "/you")

    for fields in (
        {"action": "revoke_key", "key_id": parse_key_id(victim_key)},
        {"action": "end_grant", "grant_id": grant_id},
        {"action": "end_grant", "grant_id": "x"},
    ):
        assert post_form(attacker, "/you", **fields).status_code == 404
    assert post_form(attacker, "/you", action="delete").status_code == 400

    assert get_call_status(url, victim_key) == 200
    assert victim.open("/you").response.status_code == 200


def test_a_read_only_session_cannot_revoke_a_key(url: str, make_key: MakeKey) -> None:
    key = make_key("owns.reader", frozenset({Scope.READ}))
    person = Person(url).sign_in(key, "/you")
    assert person.buttons == ["Search", "Sign out"]
    assert (
        post_form(person, "/you", action="revoke_key", key_id=parse_key_id(key)).status_code == 403
    )
    assert get_call_status(url, key, "search_traces") == 200


def test_the_usage_chart_counts_writing_calls(url: str, make_key: MakeKey) -> None:
    key = make_key("owns.usage")
    person = Person(url).sign_in(key, "/you")
    assert "0 calls that changed or cost something" in person.texts("section")[0]
    assert get_call_status(url, key, "add_task", title="Buy flour") == 200
    assert "1 call that changed or cost something" in person.open("/you").texts("section")[0]
    heights = [bar.get("height") for bar in person.select("rect")]
    assert heights == ["2"] * 29 + ["62"]  # a bar per day: all low except that of today
    [call] = person.texts("details .row")
    assert call.startswith("add_task")
    assert call.endswith("tests")  # the name of the key


def test_a_laptop_shows_no_sign_ins(laptop: RunningGateway) -> None:
    person = Person(laptop.url).open("/you")
    assert person.texts("h2") == ["Last 30 days", "Keys"]


def test_an_anonymous_visitor_is_asked_to_sign_in(carrel: Carrel) -> None:
    response = httpx2.get(carrel.endpoint.removesuffix("mcp") + "you")
    assert response.status_code == 401
    assert 'href="/session/new?to=%2Fyou"' in response.text
