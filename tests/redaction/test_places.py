"""The same value is a secret in one place and ordinary in another; no exemption hides more than it says."""

import pytest

from steadyhelm.fingerprints import encode_canonical
from steadyhelm.redaction import Redactor

REDACTOR = Redactor()
ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/orders-fJk6eN"

PLACES = {
    "member in source, letters and digits in settings": (
        "    password = Otter42.maple\n    return password",
        "[client]\npassword = Otter42.maple\n",
        "Otter42.maple",
    ),
    "argument of a call, variable of a shell": (
        "connect(password=Otter42.maple, port=1)",
        "DB_PASSWORD=Otter42.maple",
        "Otter42.maple",
    ),
    "member of an object, line of YAML": (
        "const db = {\n  password: Otter42.maple\n}",
        "db:\n  password: Otter42.maple\n",
        "Otter42.maple",
    ),
    "statement, text of a connection": (
        "password=Otter42.maple;\nlogin();",
        "Server=db;Password=Otter42.maple;Encrypt=True",
        "Otter42.maple",
    ),
    "member that names a secret, one that does not": (
        "DB_PASSWORD=config9.password",
        "DB_PASSWORD=config9.harbor",
        "config9.harbor",
    ),
    "member of a form, words with a dot in a variable": (
        "DB_PASSWORD=form.cleaned",
        "DB_PASSWORD=blue.harbor",
        "blue.harbor",
    ),
    "class of a library, words with a dot in settings": (
        "[client]\npassword = django.forms.PasswordInput\n",
        "[client]\npassword = Maple.Otter.River\n",
        "Maple.Otter.River",
    ),
    "member in source, words with a dot in YAML": (
        "const db = {\n  password: blue.harbor\n}",
        "db:\n  password: blue.harbor\n",
        "blue.harbor",
    ),
    "argument of a call, variable in the brackets of a shell": (
        "connect(user=row.user, password=blue.harbor)",
        "(DB_PASSWORD=blue.harbor make deploy)",
        "blue.harbor",
    ),
    "setting that code reads, line of YAML with a comment": (
        "connect(DB_PASSWORD=settings.primary, DB_USER=settings.user)",
        "db:\n  password: blue.harbor  # rotate in May\n",
        "blue.harbor",
    ),
    "token, which is never of words, password": (
        "curl --token blue.harbor --password=form.value",
        "curl --token blue.harbor --password=green.valley",
        "green.valley",
    ),
    "type in a table without spaces, password": (
        "|user|string|\n|password|varchar2|\n",
        "|user|ann|\n|password|x9fK2mQ7pL|\n",
        "x9fK2mQ7pL",
    ),
    "head of a table, row of it": (
        "|id|password|oauth2x|\n|---|---|---|\n|1|yes|no|\n",
        "|db1|password|oauth2x|\n|db2|port|5432|\n",
        "oauth2x",
    ),
    "words to search for, cell of a table drawn with lines": (
        "grep -E 'token|password|passw0rd' notes.txt",
        "\u2502password\u2502passw0rd\u2502",
        "passw0rd",
    ),
    "part of an address in escapes, value with an escape": (
        "redirect=%2Flogin%3Fpassword%3D%26page%3D12",
        "bind_password: Otter%269harbor!",
        "%269harbor!",
    ),
    "variable of Windows, value between per cent signs": (
        "PASSWORD=%DB_PASS2%",
        "PASSWORD=%q8Zt3LmX0v%",
        "q8Zt3LmX0v",
    ),
    "name of a resource, value behind it": (
        ARN,
        f"{ARN} has the secret: q8Zt3LmX0v",
        "q8Zt3LmX0v",
    ),
    "checksum of a package, secret of its settings": (
        '"jsonwebtoken": {\n  "version": "9.6.14",\n  "integrity": "sha512-NT8NOrvRGELmLRHNJGgOG5vXSW"\n}',
        '"jsonwebtoken": {\n  "version": "9.6.14",\n  "value": "NT8NOrvRGELmLRHNJGgOG5vXSW"\n}',
        "NT8NOrvRGELmLRHNJGgOG5vXSW",
    ),
    "piece of a word, item that looks like a password": (
        "tokens: ['pass', '##word', 'wrong']",
        "tokens: ['pass', '##W0rd9x', 'wrong']",
        "##W0rd9x",
    ),
    "assignment of what code returns, of a text": (
        "password ||= prompt9",
        "password ||= 'harbor9x'",
        "harbor9x",
    ),
    "part of a variable, its default": (
        "${PASSWORD:0:12}",
        "${PASSWORD:-0x12harbor}",
        "0x12harbor",
    ),
    "default without a secret, with one": (
        "password = os.getenv('X') or 'none'",
        "password = os.getenv('X') or 'harbor9x'",
        "harbor9x",
    ),
    "namespace, user and password": (
        "credentials: Aws::Credentials9.new",
        "credentials: ann:Credentials9x",
        "Credentials9x",
    ),
    "entry of a manifest that refers to a variable, with a value": (
        'kind: Secret\nstringData:\n  main: "${HARBOR9}"\n',
        'kind: Secret\nstringData:\n  main: "HARBOR9x"\n',
        "HARBOR9x",
    ),
    "entry of a manifest of settings, of secrets": (
        'kind: ConfigMap\ndata:\n  main: "HARBOR9x"\n',
        'kind: Secret\ndata:\n  main: "HARBOR9x"\n',
        "HARBOR9x",
    ),
    "number of a release, code of a user": (
        "Pinned version: 126891.",
        "security PIN: 126891.",
        "126891",
    ),
    "name of a machine, password in another language": (
        "Has\u0142o do worker-node-12 zmienione",
        "Has\u0142o do serwera: harbor-maple-1234",
        "harbor-maple-1234",
    ),
    "new value of a setting, of a password": (
        "Limit updated.\nNew value: q8Zt3LmX0v",
        "Password updated.\nNew value: q8Zt3LmX0v",
        "q8Zt3LmX0v",
    ),
    "checksum with a tilde, token": (
        "sha256~q8Zt3LmX0v",
        "sha256~q8Zt3LmX0vB2nR5kq8Zt3LmX0vB2nR5kq8Zt3LmX0vZ",
        "q8Zt3LmX0vB2nR5k",
    ),
    "sign between two commands of a server, answer of a server": (
        "PASS tests/login_2",
        "PASS tests_login2\r\n230 Logged in",
        "tests_login2",
    ),
}  # fmt: skip


def redact(text):
    return REDACTOR.redact(text, encode_canonical(text))[0]


@pytest.mark.parametrize(("kept", "given", "secret"), PLACES.values(), ids=PLACES)
def test_the_place_decides(kept, given, secret):
    """
    The first text stays as it is; the second one loses its secret, which looks the same.
    """
    assert kept == redact(kept)
    assert secret not in redact(given)


def test_names_between_the_values_of_a_group_are_read():
    """
    A password of letters between two values that a group yields is found by its own name.
    """
    text = '{"secrets": {"a": "q8Zt3LmX0vB2nR5k", "password": "velvetotter", "b": "k5Rn2Bv0XmL3tZ8q"}}x'

    clean = redact(text)

    assert 3 == clean.count("[redacted: assigned secret]")
    assert not any(secret in clean for secret in ("q8Zt3LmX0vB2nR5k", "velvetotter", "k5Rn2Bv0XmL3tZ8q"))


def test_both_values_of_a_change_go():
    """
    A sentence that says the old and the new password loses both.
    """
    clean = redact("The password was changed from 'harbor9x' to 'maple7y!'")

    assert "harbor9x" not in clean
    assert "maple7y" not in clean
