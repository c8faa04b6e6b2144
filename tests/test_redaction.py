import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import SettingsError
from steadyhelm.fingerprints import encode_canonical, to_plain_data
from steadyhelm.redaction import Redactor

ALPHANUMERIC = "aB3dE5gH7jK9mN2pQ4sT6vW8xY1zA0cD"
PRIVATE_KEY = (
    f"-----BEGIN RSA PRIVATE KEY-----\n{ALPHANUMERIC * 2}\n{ALPHANUMERIC}==\n-----END RSA PRIVATE KEY-----"
)

# A secret of every shape we know, and what of it must never be seen again.
SECRETS = {
    "OpenAI": f"sk-proj-{ALPHANUMERIC}",
    "Stripe": f"sk_live_{ALPHANUMERIC[:24]}",
    "Stripe restricted": f"rk_test_{ALPHANUMERIC[:24]}",
    "GitHub": f"ghp_{ALPHANUMERIC}abcd",
    "GitHub app": f"ghs_{ALPHANUMERIC}abcd",
    "GitHub fine-grained": f"github_pat_{ALPHANUMERIC}",
    "GitLab": f"glpat-{ALPHANUMERIC[:20]}",
    "Slack": f"xoxb-123456789012-{ALPHANUMERIC[:16]}",
    "Slack webhook": f"https://hooks.slack.com/services/T000/B000/{ALPHANUMERIC[:24]}",
    "Discord webhook": f"https://discord.com/api/webhooks/123456/{ALPHANUMERIC}",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "AWS temporary": "ASIAIOSFODNN7EXAMPLE",
    "Google": f"AIza{ALPHANUMERIC}abc",
    "package index": f"pypi-{ALPHANUMERIC}{ALPHANUMERIC}",
    "package registry": f"npm_{ALPHANUMERIC}abcd",
    "model hub": f"hf_{ALPHANUMERIC}",
    "JSON web token": f"eyJhbGciOiJIUzI1NiJ9.{ALPHANUMERIC}.{ALPHANUMERIC[:20]}",
    "private key": PRIVATE_KEY,
    "random": ALPHANUMERIC * 2,
}
# The text around it, and the part that is the secret.
IN_WORDS = {
    "URL": ("postgres://ann:{}@db.example.org/x", "hunter2hunter"),
    "URL without a user": ("redis://:{}@cache.example.org", "hunter2hunter"),
    "URL with @ in it": ("postgres://ann:{}@db.example.org", "hunt@er@two"),
    "bearer": ("Authorization: Bearer {}", "abcdefghijkl.mnop"),
    "basic": ("authorization: basic {}", "YW5uOmh1bnRlcjI="),
    "assigned": ("export DB_PASSWORD={}", "hunter2"),
    "assigned, long": ("api_key={}", "ab" * 400),
    "assigned in quotes": ('client_secret = "{}"', "correct horse battery"),
    "assigned in single quotes": ("passphrase: '{}'", "correct horse battery"),
    "assigned in JSON": ('{{"access-key": "{}", "n": 1}}', "hunter2hunter2"),
    "assigned in JSON in JSON": ('{{\\"auth_token\\": \\"{}\\"}}', "hunter2 hunter2"),
    "assigned in YAML": ("private_key: {}\nname: ann", "hunter2"),
}
SEEDED = [(secret, secret) for secret in SECRETS.values()] + [
    (words.format(secret), secret) for words, secret in IN_WORDS.values()
]
PLACEHOLDERS = (
    "xxxxxxxx",
    "XXXX-XXXX",
    "********",
    "••••••••",
    "...",
    "…",
    "________",
    "$API_KEY",
    "${API_KEY}",
    "${{ secrets.API_KEY }}",
    "{{ api_key }}",
    "{api_key}",
    "%API_KEY%",
    "%(api_key)s",
    "$(cat key.txt)",
    "<your-api-key>",
    "your-api-key",
    "YOUR_API_KEY",
    "my_secret_value",
    "changeme",
    "example",
    "TODO",
    "[redacted: field password]",
    "[REDACTED]",
    "op://vault/item/field",
    "arn:aws:secretsmanager:eu-west-1:0:secret:db",
    "/run/secrets/db",
    "process.env.API_KEY",
)
SECRET_NAMES = (
    "password",
    "API_KEY",
    "Authorization",
    "userToken",
    "aws_secret",
    "Set-Cookie",
    "private-key",
)

PLAIN = st.recursive(
    st.none() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def seeded(draw):
    """Nested data with a secret somewhere in it, as a value, in a key or in the middle of a text."""
    text, secret = draw(st.sampled_from(SEEDED))
    held = draw(st.sampled_from([f"{text}", f"see: {text} .", f"\n{text}\n", f"“{text}”"]))
    value = draw(st.sampled_from([held, {held: 1}, {"note": held}, [held], {"a": [{held: [held]}]}]))
    for name in draw(st.lists(st.text(max_size=8), max_size=3)):
        value = draw(st.sampled_from([{name: value}, [name, value], {name: value, "z": draw(PLAIN)}]))
    return value, secret


@st.composite
def named(draw):
    """Nested data with a secret field that holds neither a placeholder (a run of x) nor a set of cookies."""
    secret = draw(st.text(alphabet="qjzx", min_size=8, max_size=20).filter(lambda text: set(text) != {"x"}))
    name = draw(st.sampled_from(SECRET_NAMES))
    members = [] if name == "Set-Cookie" else [{"inner": secret}, {"a": [1, secret]}]
    value = {name: draw(st.sampled_from([secret, [secret], *members]))}
    for key in draw(st.lists(st.text(alphabet="abc", max_size=8), max_size=3)):
        value = draw(st.sampled_from([{key: value}, [key, value]]))
    return value, secret


def everything(value):
    """Every text in the data, keys too, unescaped."""
    if isinstance(value, dict):
        return "\n".join(f"{key}\n{everything(item)}" for key, item in value.items())
    return "\n".join(map(everything, value)) if isinstance(value, list) else str(value)


def cleaned(value, redactor=None):
    return (redactor or Redactor()).redact(value, encode_canonical(value))


class TestSecrets:
    @given(seeded())
    def test_no_known_secret_survives(self, seeded):
        """
        A secret of a known shape is gone from wherever it stood, in the value and in what is kept.
        """
        value, secret = seeded
        plain, encoded = cleaned(value)

        assert secret not in everything(plain)
        assert secret not in everything(msgspec.json.decode(encoded))

    @given(named())
    def test_a_field_with_a_secret_name_is_taken_out(self, named):
        """
        What stands in a field whose name speaks of a secret is gone, whatever it holds.
        """
        value, secret = named
        plain, encoded = cleaned(value)

        assert secret not in everything(plain)
        assert secret.encode() not in encoded

    @pytest.mark.parametrize("name", SECRETS)
    def test_a_text_loses_its_secret(self, name):
        """
        A secret in the middle of a text goes, the words around it stay.
        """
        text = Redactor().redact_text(f"it is {SECRETS[name]} now")

        assert SECRETS[name] not in text
        assert text.startswith("it is ")
        assert text.endswith(" now")

    @pytest.mark.parametrize("name", IN_WORDS)
    def test_an_assigned_secret_goes_whole(self, name):
        """
        What is a secret only by the words before it goes, to its end.
        """
        words, secret = IN_WORDS[name]
        text = Redactor().redact_text(words.format(secret))

        assert secret not in text
        assert secret[-4:] not in text.replace("]@", "")

    def test_the_marker_never_shows_the_secret(self):
        """
        Where a field's name itself holds a secret, the marker does not repeat it.
        """
        token = SECRETS["GitHub"]
        plain, encoded = cleaned({f"token {token}": "x", "kept": 1})

        assert token not in everything(plain)
        assert token.encode() not in encoded

    def test_the_marker_names_the_rule(self):
        """
        The marker says which rule found it.
        """
        assert "[redacted: AWS key id]" == Redactor().redact_text(SECRETS["AWS"])
        assert {"password": "[redacted: field password]"} == cleaned({"password": "hunter2"})[0]

    @pytest.mark.parametrize("before", range(5800, 6200, 37))
    def test_a_key_that_was_cut_is_taken_out_too(self, before):
        """
        A private key that a long text was cut in leaves neither its beginning nor its end.
        """
        line = "aB/+9cD"
        key = f"-----BEGIN PRIVATE KEY-----\n{(line * 9 + chr(10)) * 60}-----END PRIVATE KEY-----"
        _, encoded = cleaned({"file": "x " * (before // 2) + key + " y" * 1500})

        assert line * 2 not in msgspec.json.decode(encoded)["file"]

    def test_letters_that_only_look_like_ascii(self):
        """
        A field's name written with a Kelvin sign is found as well.
        """
        assert "hunter2" not in everything(cleaned({"to\N{KELVIN SIGN}en": "hunter2"})[0])

    def test_cleaning_twice_changes_nothing(self):
        """
        What was cleaned stays as it is.
        """
        value = {"password": "x" * 9, "text": [text for text, _ in SEEDED]}
        once, encoded = cleaned(value)

        assert (once, encoded) == cleaned(once)


class TestSuspicious:
    @given(st.one_of(seeded().map(lambda pair: pair[0]), named().map(lambda pair: pair[0]), PLAIN))
    def test_it_never_misses(self, value):
        """
        What looks harmless at first sight is harmless: reading it closely would change nothing.
        """
        redactor = Redactor()
        plain = to_plain_data(value)
        if redactor._structures.redact(plain) != plain:
            assert redactor.may_contain_secret(encode_canonical(value))

    @pytest.mark.parametrize(
        "value",
        [
            {"path": "src/main.py", "line": 12},
            {"text": "All 14 tests passed in 3.2 s."},
            ["read", "edit", "test"],
            "a sentence about nothing in particular",
        ],
    )
    def test_ordinary_data_is_not_read_closely(self, value):
        """
        Ordinary arguments and results are let through at first sight.
        """
        assert not Redactor().may_contain_secret(encode_canonical(value))


class TestHarmless:
    @pytest.mark.parametrize(
        "text",
        [
            "The token count was 512, the secret of success is work.",
            "commit 3f786850e387550fdab836ed7e6dc881de23001b fixed it",
            "see https://example.org/a/b?c=d and mail ann@example.org",
            "api_key=$API_KEY password=<your-password> secret: ${SECRET} token=***",
            "def get_password(self): return None",
            "a_very_long_identifier_that_is_only_words_and_underscores",
            "5f4dcc3b5aa765d61d8327deb882cf99" * 2,
            "",
        ],
    )
    def test_clean_text_is_unchanged(self, text):
        """
        Prose, hashes, addresses, placeholders and long names are not secrets.
        """
        assert text == Redactor().redact_text(text)

    @given(st.text(alphabet="abcdefghij .,\n", max_size=200))
    def test_words_are_unchanged(self, text):
        """
        Words are not secrets.
        """
        assert text == Redactor().redact_text(text)

    @pytest.mark.parametrize("name", SECRET_NAMES)
    @pytest.mark.parametrize("placeholder", PLACEHOLDERS)
    def test_a_placeholder_is_shown(self, name, placeholder):
        """
        What stands in place of a secret in a field with a secret's name stays, as do places to find one.
        """
        assert {name: placeholder} == cleaned({name: placeholder})[0]

    def test_clean_data_is_handed_back_as_it_is(self):
        """
        Without a secret the very same objects come back.
        """
        value = {"token_count": 5, "max_tokens": 100, "text": "fine"}
        encoded = encode_canonical(value)
        same_value, same_encoded = Redactor().redact(value, encoded)

        assert value is same_value
        assert encoded is same_encoded

    def test_the_callers_object_is_not_changed(self):
        """
        A secret is taken out of a copy, never out of the agent's own object.
        """
        value = {"password": "hunter2", "list": [SECRETS["AWS"]]}
        cleaned(value)

        assert {"password": "hunter2", "list": ["AKIAIOSFODNN7EXAMPLE"]} == value

    @pytest.mark.parametrize("empty", [None, "", True, False])
    def test_an_empty_field_is_shown(self, empty):
        """
        That a password is missing, or that there is one, is not the password.
        """
        assert {"password": empty} == cleaned({"password": empty})[0]

    @pytest.mark.parametrize(
        "text",
        [
            "key " + "a" * 8000,
            "password" * 1000,
            "password" + "\\" * 8000,
            "password: '" + "x " * 4000,
            "://a:" * 1600 + "@",
            "eyJ" * 2700,
            "-----BEGIN " * 700,
            "bearer " * 1100,
        ],
        ids=lambda text: text[:12],
    )
    def test_hostile_texts_are_read_to_their_end(self, text):
        """
        A text made to be slow to search, and 160,000 characters long, is searched all the same.
        """
        assert len(Redactor().redact_text(text * 20)) > 0


class TestOwnRules:
    def test_further_words(self):
        """
        A field whose name holds a word of yours is taken out, in any case.
        """
        redactor = Redactor(key_words=["Badge"])

        assert {"staff_BADGE_no": "[redacted: field staff_BADGE_no]"} == cleaned(
            {"staff_BADGE_no": "77"}, redactor
        )[0]

    def test_words_in_any_script(self):
        """
        A word with letters beyond ASCII is found in any case too.
        """
        redactor = Redactor(key_words=["clé_secrète"])

        assert "77" not in everything(cleaned({"CLÉ_SECRÈTE": "77"}, redactor)[0])

    def test_further_patterns(self):
        """
        What a pattern of yours matches is taken out.
        """
        redactor = Redactor(patterns=[r"EMP-\d+"])

        assert {"who": "[redacted: custom rule]"} == cleaned({"who": "EMP-1234"}, redactor)[0]

    def test_a_broken_pattern_is_refused(self):
        """
        A pattern that is no regular expression is refused by name and value.
        """
        with pytest.raises(SettingsError, match=r"redaction\.patterns .*'\(open'"):
            Redactor(patterns=["(open"])

    def test_an_empty_word_is_refused(self):
        """
        An empty word would take out every field, and is refused.
        """
        with pytest.raises(SettingsError, match=r"redaction\.keys"):
            Redactor(key_words=[""])
