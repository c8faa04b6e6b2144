"""Secrets go wherever a program shows a text, and what it is shown with stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.fingerprints import encode_canonical
from steadyhelm.redaction import Redactor
from steadyhelm.redaction.presentation import restore_prefixes, strip_prefixes

REDACTOR = Redactor()
KEY = "-----BEGIN PRIVATE KEY-----\nq8Zt3LmX0vB2nR5kq8Zt3LmX0vB2nR5k\n-----END PRIVATE KEY-----"
MANIFEST = "- name: DB_PASSWORD\n  value: hunter2\n- name: PORT\n  value: '1'"
REDACTED = "- name: DB_PASSWORD\n  value: [redacted: assigned secret]\n- name: PORT\n  value: '1'"
SHOWN = {
    "with numbers": lambda at, line: f"{at:>6}\t{line}",
    "with numbers and arrows": lambda at, line: f"{at:>5}→{line}",
    "with numbers and a line": lambda at, line: f"{at:>3} | {line}",
    "as a quotation": lambda _, line: f"> {line}",
    "as the matches of a search": lambda at, line: f"deploy/app.yml:{at}:{line}",
}
LINES = st.lists(
    st.sampled_from(["a", "  b: 1", "", "> c", "7\td", "x.py:3:e", "+f"]), min_size=1, max_size=6
)


def redact(value):
    return REDACTOR.redact(value, encode_canonical(value))[0]


def show(text, how):
    return "\n".join(SHOWN[how](at, line) for at, line in enumerate(text.split("\n"), 1))


@pytest.mark.parametrize("how", SHOWN)
def test_what_is_in_front_of_lines_stays(how):
    """
    A name in one line and its value in the next are read as without what is in front of them.
    """
    assert show(REDACTED, how) == redact(show(MANIFEST, how))
    assert {"out": show(REDACTED, how)} == redact({"out": show(MANIFEST, how)})


def test_a_change_is_read_like_a_file():
    """
    The signs of a diff stay, and the values behind them go.
    """
    head = "@@ -1,2 +1,4 @@\n+"

    assert head + REDACTED.replace("\n", "\n+") == redact(head + MANIFEST.replace("\n", "\n+"))


def test_lines_behind_a_secret_of_several_lines():
    """
    Where a key of several lines goes, the lines around it keep their numbers.
    """
    text = show(f"name: x\n{KEY}\nport: 1", "with numbers")

    assert ["     1\tname: x", "[redacted: private key]", "     5\tport: 1"] == redact(text).split("\n")


def test_a_page_keeps_its_entities():
    """
    Quotes that a page writes as entities are read as quotes, and stay as they are written.
    """
    text = "<b>a &lt; b</b> password=&quot;hunter2&quot;; ok"

    assert "hunter2" not in redact(text)
    assert "<b>a &lt; b</b> token &amp; key" == redact("<b>a &lt; b</b> token &amp; key")


def test_an_address_in_a_page_keeps_the_entities_beside_it():
    """
    Where nothing more is found without the entities, a text is stored with them.
    """
    text = "&lt;https://ann:hunter2@example.org&gt;"

    assert "&lt;https://[redacted: URL credentials]@example.org&gt;" == redact(text)


@pytest.mark.parametrize(
    "data",
    [
        {"args": ["-u", "root", "-phunter2"], "cmd": "mysql"},
        {"columns": ["user", "password"], "rows": [["ann", "hunter2x"]]},
        {"text": show(MANIFEST, "with numbers")},
    ],
)
def test_data_in_a_text(data):
    """
    A text that is JSON is redacted as the data that it stands for.
    """
    assert "hunter2" not in str(redact(data))
    assert "hunter2" not in redact(json.dumps(data))
    assert "hunter2" not in str(redact({"body": json.dumps({"body": json.dumps(data)})}))


@pytest.mark.parametrize(
    "text", ["[" * 50_000 + "password=hunter2x", '{"password": "hunter2x"' + ', "a": [' * 5000]
)
def test_text_that_only_begins_like_data(text):
    """
    A text that is no JSON, or nested too deep, is redacted as a text.
    """
    assert "hunter2x" not in REDACTOR.redact_text(text)


@given(LINES, st.sampled_from(sorted(SHOWN)))
def test_prefixes_come_back(lines, how):
    """
    A text whose lines did not change is the same with what was in front of them again.
    """
    text = show("\n".join(lines), how)
    plain = strip_prefixes(text)

    assert text == restore_prefixes(plain, plain, text)
