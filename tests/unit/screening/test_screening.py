"""Screening finds secrets and personal data by line and kind, and never repeats them."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.screening.scan import scan_text
from shared.screening.screen import make_screening_error, screen_texts
from tests.support.harmless_texts import HARMLESS_TEXTS
from tests.support.secret_samples import (
    ALNUM,
    HEX,
    SecretSample,
    make_json_web_token,
    make_personal_data,
    make_random_text,
    make_secrets,
    make_tokens,
)

KEY = make_tokens()["AWS access key"]
MAIL = "ida.loaf" + "@" + "gmail.com"  # joined, so that scanners of this repository pass over it


@pytest.mark.parametrize(
    "sample", [*make_secrets(), *make_personal_data()], ids=lambda sample: sample.name
)
def test_secret_is_found_in_its_line(sample: SecretSample) -> None:
    assert sample.line in {line for line, _ in scan_text(sample.text)}


@pytest.mark.parametrize("text", HARMLESS_TEXTS)
def test_harmless_text_has_no_findings(text: str) -> None:
    assert scan_text(text) == []


@pytest.mark.parametrize(
    "name",
    [
        *("api_key_profile_a", "secret_warning", "token_direct", "passwordForLearning"),
        *("SECRET_WARNING", "API_KEY_PROFILE", "AUTH_TOKEN_LEARN"),
    ],
)
def test_a_harmless_word_inside_another_word_hides_no_secret(name: str) -> None:
    for quotation_mark in ("", "'"):  # a quoted secret may contain another quotation mark
        text = f'{name} = "{quotation_mark}{make_random_text(ALNUM, 16)}"'
        assert [line for line, _ in scan_text(text)] == [1]


@pytest.mark.parametrize(("length", "lines"), [(7, []), (8, [1])])
def test_a_password_has_at_least_eight_characters(length: int, lines: list[int]) -> None:
    text = f'password = "{"q7Xk9RtV"[:length]}"'
    assert [line for line, _ in scan_text(text)] == lines


@pytest.mark.parametrize(
    "name",
    [
        *("tokenUrl", "TOKEN_URL", "secret_arn", "token_directory", "TOKENURL", "passwordResetUrl"),
        *("token_hostname", "password_minlength", "token_basepath", "token_subdir", "tokensfile"),
    ],
)
def test_a_harmless_word_after_a_secret_name_makes_it_harmless(name: str) -> None:
    assert scan_text(f'{name} = "{make_random_text(ALNUM, 16)}"') == []


def test_findings_are_ordered_without_duplicates() -> None:
    texts = {
        "title": f"Why {KEY} fails",
        "text": f"a\r\n{MAIL} {KEY} {MAIL}\r\n\r\n{KEY}",
        "tags": "a",
    }

    assert screen_texts(texts) == {
        "title": [(1, "AWS access key")],
        "text": [(2, "AWS access key"), (2, "e-mail address"), (4, "AWS access key")],
    }


def test_most_specific_kind_is_reported() -> None:
    token = make_tokens()["GitHub token"]
    text = f"GITHUB_TOKEN={token}\nhttps://ida:{make_random_text(ALNUM, 12)}@acme.io"
    text += f"\nkey = '{KEY}'  # pragma: allowlist secret"
    kinds = [kind for _, kind in scan_text(text)]
    assert kinds == ["GitHub token", "password in a URL", "AWS access key"]


@pytest.mark.parametrize(
    "disguised_key",
    [
        KEY[:7] + "\u200b" + KEY[7:],
        "\u00ad".join(KEY),
        "".join(chr(ord(character) + 0xFEE0) for character in KEY),
        KEY[:4] + "\ufe0f\u2060" + KEY[4:],
    ],
    ids=["zero-width space", "soft hyphens", "full-width", "selectors"],
)
def test_disguised_secret_is_found_in_its_line(disguised_key: str) -> None:
    text = f"\u200bfirst\nsecond\u2028still the second\n{disguised_key}"
    assert scan_text(text) == [(3, "AWS access key")]


def test_secret_after_an_escaped_line_break_is_found() -> None:
    text = rf"'one\n{make_tokens()['npm token']}\n{make_json_web_token()}'"
    kinds = [kind for _, kind in scan_text(text)]
    assert kinds == ["JSON web token", "npm token"]


def test_a_deeply_nested_web_token_causes_no_error() -> None:
    parts = ['{"alg":"none"}', '{"a":' + "[" * 30_000]
    token = ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    assert scan_text(token) == []


def test_the_error_lists_at_most_twenty_lines_and_gives_advice() -> None:
    texts = {"title": "fine", "text": f"\n\n{KEY}\n\n{MAIL}", "more": f"{KEY}\n" * 25}
    error = make_screening_error(screen_texts(texts), "Not here")
    listing = error.details.pop("more")
    assert listing.count("AWS access key") == 20
    assert listing.endswith("line 20: AWS access key; and 5 more")
    assert error.details == {"text": "line 3: AWS access key; line 5: e-mail address"}
    assert "placeholder" in error.message


@given(
    st.sampled_from([*make_secrets(), *make_personal_data()]),
    st.text(max_size=60).filter(lambda text: "\\" not in text),
    st.text(max_size=60),
)
def test_secret_value_is_never_repeated(
    sample: SecretSample, text_before: str, text_after: str
) -> None:
    findings = screen_texts({"text": f"{text_before}\n{sample.text}\n{text_after}"})
    error = make_screening_error(findings, "Not here")
    output = " ".join([repr(findings), repr(error), str(error), json.dumps(error.to_wire())])
    assert findings
    assert sample.value not in output


@given(st.text(max_size=300))
def test_any_text_can_be_screened(text: str) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    assert all(1 <= line <= lines for line, _ in scan_text(text))


def test_screening_is_thread_safe() -> None:
    texts = [{"text": sample.text} for sample in make_secrets()]
    texts.append({"text": make_random_text(HEX, 40)})
    expected = [screen_texts(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(screen_texts, texts * 4)) == expected * 4
