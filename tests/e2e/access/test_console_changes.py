"""Users with different roles change sources and notes through the console's forms.

A reader only reads, an editor adds notes, and an owner also edits and forgets any source. What is
forgotten is hidden and can be restored. The page of a source is called the reader, too.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import FULL_ACCESS, Role, Scope
from shared.knowledge.source import Section, Source
from tests.support.access import CLOUD_SETTINGS, build_key_maker, post_form, run_on_access_store
from tests.support.console_person import SESSION_COOKIE, Person
from tests.support.gateway_process import INLINE_MAIN, run_gateway
from tests.support.knowledge import fill_project
from tests.support.secret_samples import make_tokens

SignIn = Callable[..., Person]

NOTES = ".passage.open .note"
"""The notes about the open passage."""

# Each source is named for the test that changes it.
SOURCES = [
    Source(
        source_id=name,
        title=f"A book for {name}",
        author="Ida Loaf",
        category="books",
        tags=("food", "made, by hand"),
        sections=(
            Section(text=f"Knead the dough for {name} until it is smooth and let it rise."),
            Section(text=f"Anchor the boat for {name} well before the night and its winds."),
        ),
    )
    for name in (
        "editing",
        "noting",
        "forgetting",
        "leaving",
        "reading",
        "racing",
        "merging",
        "repeating",
        "resetting",
        "listing",
        "secret",
        "kept",
    )
]


@pytest.fixture(scope="module")
def sign_in(local_embedder: LocalEmbedder, log: Path) -> Iterator[SignIn]:
    """A function that signs a user with a role in, at a gateway with some sources."""
    project = f"console-{uuid.uuid4().hex[:16]}"
    asyncio.run(fill_project(project, local_embedder, *SOURCES))
    make_key = build_key_maker(project)
    with run_gateway(
        INLINE_MAIN, {"GOOGLE_CLOUD_PROJECT": project, **CLOUD_SETTINGS}, log
    ) as gateway:

        def sign_in_as(role: Role, scopes: frozenset[Scope] = FULL_ACCESS) -> Person:
            user = f"user.{uuid.uuid4().hex[:8]}"
            key = make_key(user, scopes)
            run_on_access_store(project, lambda store: store.accounts.set_role(user, role))
            return Person(gateway.url).sign_in(key)

        yield sign_in_as


def find_passage_path(person: Person, source_id: str) -> str:
    """Return the address of the first passage of a source."""
    person.open(f"/sources/{source_id}")
    return f"/sources/{source_id}?passage={person.select('.passage')[0].get('id')}"


def find_note_path(person: Person, text: str) -> str:
    """Return the address of the note that has this text, which stands under its passage."""
    [note] = [note for note in person.select(NOTES) if text in note.text_content()]
    path: str = note.find("a").get("href")
    return path


def test_an_owner_edits_a_source_and_undoes_it(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER).open("/sources/editing")
    owner.submit("Save", title="Bread <b>& more</b>", tags="food\r\n made, by hand \r\n\r\nbread")
    assert owner.response.status_code == 200
    assert owner.texts(".source h1") == ["Bread <b>& more</b>"]
    assert owner.texts(".source .tag") == ["food", "made, by hand", "bread"]
    assert owner.texts(".source .author") == ["Ida Loaf"]
    assert owner.texts("[role=status] p")[0].startswith("Changed the title and tags.")

    owner.submit("Undo")
    assert owner.texts(".source h1") == ["A book for editing"]
    assert owner.texts(".source .tag") == ["food", "made, by hand"]
    assert owner.open("/sources/editing").texts("[role=status]") == []

    owner.submit("Save")
    assert owner.response.status_code == 200
    assert owner.texts("[role=status] p") == ["Nothing changed: it is like that already."]

    owner.submit("Save", author="", tags="")
    assert owner.texts(".source .tag") == []
    assert owner.texts(".source .author") == []
    assert owner.submit("Undo").texts(".source .author") == ["Ida Loaf"]


def test_changes_name_their_client_and_can_be_undone(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER)
    assert owner.open("/changes").texts("main p")[-1].startswith("You changed nothing in")
    owner.open("/add").submit("Save the note", text="Rye keeps for a week in linen.")
    owner.open("/changes")
    [change] = owner.texts(".row")
    assert "saved" in change
    assert "Carrel's console" in change
    owner.open(owner.select(".row-title")[0].get("href"))
    assert "saved with Carrel's console" in owner.texts(".source .meta")[0]

    owner.open("/changes").submit("Undo: saved Rye keeps for a week in linen.")
    assert owner.texts("[role=status] p")[0].startswith("Forgot")
    forgot, saved = owner.texts(".row")
    assert ("forgot" in forgot, "Undo" in forgot, "Undo" in saved) == (True, True, False)


def test_an_undo_of_what_has_changed_since_is_refused(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER)
    owner.open("/add").submit("Save the note", text="Rye flour likes a cool room.")
    path = owner.open("/changes").select(".row-title")[0].get("href")
    owner.open(path).submit("Save", text="Rye flour likes a dry room.")
    owner.open("/changes")
    stale = owner.page, owner.response
    owner.open(path).submit("Save", text="Rye flour likes a dark room.")
    owner.page, owner.response = stale
    owner.submit("Undo: edited Rye flour likes a dry room.")
    assert owner.response.status_code == 409
    assert owner.texts("[role=alert]")[0].startswith("Nothing was undone, because this has changed")


def test_a_note_with_a_secret_is_rejected_and_stays_in_the_form(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER)
    text = f"The token is {next(iter(make_tokens().values()))}"
    owner.open(find_passage_path(owner, "noting")).submit("Save the note", text=text)
    assert owner.response.status_code == 400
    assert owner.texts("[role=alert]")[0].startswith("Nothing was saved. The text seems to contain")
    assert text in owner.texts("[name=text]")


def test_a_note_is_shown_at_its_passage_until_undone(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER)
    path = find_passage_path(owner, "noting")
    owner.open(path).submit("Save the note", text="Ask the baker <script>why</script>.")
    assert owner.texts("[role=status] p")[0].startswith("Saved.")
    assert any("<script>why</script>" in text for text in owner.texts(NOTES))
    assert owner.select("main script") == []

    note_path = find_note_path(owner, "Ask")
    owner.submit("Undo")
    assert not any("Ask the baker" in text for text in owner.texts(NOTES))
    assert owner.open(note_path).response.status_code == 404


def test_the_text_of_a_note_is_edited_and_undone(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER)
    owner.open(find_passage_path(owner, "noting")).submit("Save the note", text="Ask the miller.")
    owner.open(find_note_path(owner, "mill"))
    assert "Ask the miller." in owner.texts("[name=text]")

    owner.submit("Save", text="Ask the miller\r\n\r\nabout rye.", tags="rye")
    assert owner.texts("[role=status] p") == ["Changed the title, text and tags."]
    assert owner.texts(".source h1") == ["Ask the miller about rye."]
    assert owner.texts(".passage .text p") == ["Ask the miller", "about rye."]

    owner.submit("Undo")
    assert owner.texts(".source h1") == ["Ask the miller."]
    assert owner.texts(".source .tag") == []

    owner.submit("Save")
    assert owner.texts("[role=status] p")[0].startswith("Nothing was saved")


def test_a_long_note_is_edited_as_a_whole(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER)
    text = "\n\n".join(
        f"Paragraph {number}: {'bread and water ' * 20}".strip() for number in range(20)
    )
    owner.open(find_passage_path(owner, "noting")).submit("Save the note", text=text)
    owner.open(find_note_path(owner, "Paragraph 0"))
    assert len(owner.select(".passage")) > 1
    [field] = owner.select("#note-text")
    assert field.text.strip() == text
    owner.submit("Save", text=f"{text}\n\nThe end.")
    assert "The end." in owner.texts(".passage")[-1]


def test_other_users_see_no_form_to_edit_a_note(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER)
    owner.open(find_passage_path(owner, "noting")).submit(
        "Save the note", text="A note of the owner."
    )
    path = find_note_path(owner, "of the owner")
    for role in (Role.READER, Role.EDITOR):
        assert sign_in(role).open(path).texts("main summary") == []  # no form to unfold


def test_an_edited_field_can_be_reset_to_its_imported_value(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER).open("/sources/resetting")
    assert "Reset the title" not in owner.buttons
    owner.submit("Save", title="Another title", tags="other")
    owner.submit("Reset the title")
    assert owner.texts(".source h1") == ["A book for resetting"]
    assert owner.texts(".source .tag") == ["other"]
    assert "Reset the title" not in owner.buttons
    owner.submit("Undo")
    assert owner.texts(".source h1") == ["Another title"]
    owner.submit("Reset the title").submit("Reset the tags")
    assert owner.texts(".source .tag") == ["food", "made, by hand"]


def test_a_forgotten_passage_can_be_restored(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER)
    path = find_passage_path(owner, "forgetting")
    owner.open(path).submit("Forget the passage")
    assert owner.texts("[role=status] p")[0].startswith("Forgot a passage of")
    assert owner.texts("[role=alert]") == []
    assert len(owner.select(".passage")) == 1
    owner.submit("Undo")
    assert owner.texts("[role=status] p")[0].startswith("Restored a passage of")
    assert len(owner.select(".passage")) == 2


def test_a_forgotten_source_is_no_longer_listed_or_shown(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER).open("/sources/leaving")
    owner.submit("Forget the source")
    assert owner.response.status_code == 200
    assert owner.texts("h1") == ["Forgotten"]
    assert Person(str(owner.http.base_url)).open("/").texts("h1") == ["Sign in"]  # nobody else
    assert "A book for leaving" not in " ".join(owner.open("/sources").texts(".rows"))
    owner.open("/sources/leaving")
    assert owner.response.status_code == 404


def test_forgotten_items_are_listed_and_can_be_restored(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER)
    user_id = owner.texts(".who a")[0]
    owner.open(find_passage_path(owner, "listing")).submit("Forget the passage")
    passage_start = "Knead the dough for listing"
    [row] = [row for row in owner.open("/forgotten").texts(".row") if passage_start in row]
    assert row.startswith("A book for listing")
    assert f"forgotten by {user_id} with Carrel's console on" in row
    assert "until" in row

    owner.submit("Restore A book for listing")
    assert owner.texts("[role=status] p") == ["Restored a passage of “A book for listing”. Open"]
    assert passage_start not in " ".join(owner.texts(".row"))
    [link] = owner.select("[role=status] a")
    owner.open(link.get("href").partition("#")[0])
    assert passage_start in owner.texts(".passage.open")[0]

    owner.submit("Forget the source")
    assert "/forgotten" in [link.get("href") for link in owner.select("main a")]
    owner.open("/forgotten").submit("Restore A book for listing").submit("Undo")
    assert owner.texts("[role=status] p")[0].startswith("Forgot “A book for listing”")
    assert owner.open("/sources/listing").response.status_code == 404


def test_users_see_only_forgotten_items_that_they_may_restore(sign_in: SignIn) -> None:
    owner, editor, reader = (sign_in(role) for role in (Role.OWNER, Role.EDITOR, Role.READER))
    path = find_passage_path(owner, "secret")
    owner.open("/sources/secret").submit("Forget the source")
    editor.open(find_passage_path(editor, "noting")).submit("Save the note", text="Mine to forget.")
    editor.open(find_note_path(editor, "Mine")).submit("Forget the source")

    assert editor.open("/forgotten").texts(".row strong") == ["Mine to forget."]
    assert "A book for secret" in owner.open("/forgotten").texts(".row strong")
    assert "Mine to forget." in owner.texts(".row strong")
    assert reader.open("/forgotten").response.status_code == 403
    assert "/forgotten" not in reader.open("/sources").response.text
    reading_owner = sign_in(Role.OWNER, frozenset({Scope.READ}))
    assert reading_owner.open("/forgotten").response.status_code == 403
    assert editor.open(path).response.status_code == 404


def test_an_editor_cannot_restore_another_users_source(sign_in: SignIn) -> None:
    owner, editor = sign_in(Role.OWNER), sign_in(Role.EDITOR)
    owner.open("/sources/kept").submit("Forget the source")
    editor.open("/forgotten")
    response = post_form(editor, "/forgotten", action="restore", source_id="kept")
    assert response.status_code == 404
    assert owner.open("/sources/kept").response.status_code == 404


def test_a_repeated_form_takes_effect_once(sign_in: SignIn) -> None:
    owner = sign_in(Role.OWNER)
    owner.open(find_passage_path(owner, "repeating")).submit(
        "Save the note", text="Once is enough."
    )
    request = owner.response.request
    headers = {name: request.headers[name] for name in ("content-type", "origin")}
    owner.follow(owner.http.post(request.url, content=request.content, headers=headers))
    assert owner.response.status_code == 200
    notes = [text for text in owner.texts(NOTES) if "Once is enough" in text]
    assert len(notes) == 1


def test_a_conflicting_edit_keeps_the_typed_title(sign_in: SignIn) -> None:
    first, second = (sign_in(Role.OWNER).open("/sources/racing") for _ in range(2))
    first.submit("Save", title="The first title")
    second.submit("Save", title="The second title")
    assert second.response.status_code == 409
    assert second.texts("[role=alert]")[0].startswith("Somebody changed this since")
    assert second.texts(".source h1") == ["The first title"]
    assert [field.get("value") for field in second.select("#title")] == ["The second title"]
    second.submit("Save")
    assert second.texts(".source h1") == ["The second title"]


def test_after_a_conflict_only_changed_fields_are_saved(sign_in: SignIn) -> None:
    first, second = (sign_in(Role.OWNER).open("/sources/merging") for _ in range(2))
    first.submit("Save", title="The new title", tags="food")
    second.submit("Save", author="", tags="")
    assert second.response.status_code == 409
    assert second.select("#title")[0].get("value") == "The new title"
    assert second.select("#author")[0].get("value") == ""
    assert second.texts("#tags") == [""]
    second.submit("Save")
    assert second.response.status_code == 200
    assert second.texts(".source h1") == ["The new title"]
    assert second.texts(".author") == second.texts(".source .tag") == []


def test_a_form_sent_after_the_session_ended_keeps_its_text(sign_in: SignIn) -> None:
    person = sign_in(Role.OWNER)
    path = find_passage_path(person, "reading")
    person.open(path)
    person.http.cookies.delete(SESSION_COOKIE)
    person.submit("Save the note", text="A thought\n</textarea>about bread")
    assert person.response.status_code == 401
    assert person.texts("[role=alert]") == [
        "Your sign-in has ended, and nothing was changed. Sign in again."
    ]
    assert person.select("#typed")[0].text.strip() == "A thought\n</textarea>about bread"
    [link] = [link.get("href") for link in person.select("a") if link.text == "Sign in"]
    assert link == f"/session/new?{urlencode({'to': path})}"


def test_a_form_that_is_too_large_gets_an_error_page(sign_in: SignIn) -> None:
    person = sign_in(Role.OWNER)
    person.open(find_passage_path(person, "reading")).submit("Save the note", text="x" * 300_000)
    assert person.response.status_code == 413
    [message] = person.texts("[role=alert]")
    assert message.startswith("This request is larger than 262,144 bytes. Nothing was changed.")


def test_a_second_sign_out_offers_to_sign_in_again(sign_in: SignIn) -> None:
    person = sign_in(Role.OWNER).open("/sources")
    person.http.cookies.delete(SESSION_COOKIE)
    person.submit("Sign out")
    assert "/session/new?to=%2F" in [link.get("href") for link in person.select("a")]


@pytest.mark.parametrize(
    ("role", "scopes", "summaries"),
    [
        (Role.READER, FULL_ACCESS, []),
        (Role.OWNER, frozenset({Scope.READ}), []),
        (Role.OWNER, frozenset({Scope.READ, Scope.WRITE}), ["Add a note"]),
        (Role.EDITOR, FULL_ACCESS, ["Add a note"]),
        (
            Role.OWNER,
            FULL_ACCESS,
            ["Edit", "Forget", "Edit tags", "Add a note", "Forget this passage"],
        ),
    ],
)
def test_users_see_only_forms_that_they_may_use(
    sign_in: SignIn, role: Role, scopes: frozenset[Scope], summaries: list[str]
) -> None:
    person = sign_in(role, scopes)
    person.open(find_passage_path(person, "reading"))
    assert person.texts("main summary") == summaries


@pytest.mark.parametrize("role", [Role.READER, Role.EDITOR])
def test_a_forged_form_cannot_do_more_than_the_role(sign_in: SignIn, role: Role) -> None:
    person = sign_in(role).open("/sources/reading")
    for fields in (
        {"action": "forget"},
        {"action": "edit", "revision": "0", "title": "Mine", "former_title": ""},
        {"action": "undo", "tool": "forget", "arguments": '{"source_id": "reading"}'},
    ):
        assert post_form(person, "/sources/reading", **fields).status_code == 403
    assert person.open("/sources/reading").texts(".source h1") == ["A book for reading"]


def test_an_invalid_form_is_rejected(sign_in: SignIn) -> None:
    person = sign_in(Role.OWNER).open("/sources/reading")
    for fields in (
        {"action": "delete"},
        {"action": "edit"},
        {"action": "edit", "revision": "-1"},
        {"action": "edit_note", "revision": "0", "text": "x"},
        {"action": "reset", "revision": "0", "field": "language"},
        {"action": "undo"},
        {"action": "undo", "tool": "delete_task", "arguments": "{}"},
        {"action": "undo", "tool": "forget", "arguments": "[" * 9_000},
        {"action": "undo", "tool": "forget", "arguments": '{"x": 1}'},
        {"action": "undo", "tool": "forget", "arguments": '{"tool": "x", "self": "x"}'},
        {"action": "note", "text": ""},
    ):
        assert post_form(person, "/sources/reading", **fields).status_code == 400
    assert post_form(person, "/sources/reading").status_code == 400


def test_users_add_what_their_role_allows(sign_in: SignIn) -> None:
    """A file may contain any source, so only an owner adds files."""
    reader, editor, owner = (sign_in(role) for role in (Role.READER, Role.EDITOR, Role.OWNER))
    assert "Add" not in reader.texts("nav a")
    assert reader.open("/add").response.status_code == 403

    assert "Add" in editor.texts("nav a")
    assert editor.open("/add").texts("main h2") == ["A link", "A note"]
    editor.submit("Save the note", text="Rye needs longer.", title="Rye", tags="bread\r\nrye")
    assert editor.texts("[role=status] p")[0].startswith("Saved.")
    note = editor.select("[role=status] a")[0].get("href")
    assert editor.open(note).texts(".source .tag") == ["bread", "rye"]
    owner.open("/add")
    assert owner.texts("main h2") == ["A link", "Files", "A note", "Followed"]

    for person, files in ((editor, {"files": ("a.md", b"A.")}), (reader, {})):
        [token] = owner.select("#upload [name=form]")
        origin = str(person.response.url.copy_with(path="/", query=None)).rstrip("/")
        response = person.http.post(
            "/add/files", data={"form": token.get("value")}, files=files, headers={"origin": origin}
        )
        assert response.status_code == 403


def test_a_link_is_added_taken_back_and_refused(sign_in: SignIn) -> None:
    editor = sign_in(Role.EDITOR).open("/add")
    editor.submit("Add the link", url=" https://example.com/an-essay ")
    assert editor.texts("[role=status] p")[0].startswith("The page will be fetched.")
    editor.submit("Undo")
    assert editor.texts("[role=status] p") == ["The page will not be fetched."]
    editor.submit("Add the link", url="http://localhost/private")
    assert editor.response.status_code == 400
    assert editor.texts("[role=alert]") == [
        "Nothing was saved. The address: not a public web page."
    ]
    assert editor.select("#url")[0].get("value") == "http://localhost/private"
