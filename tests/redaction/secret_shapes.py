"""Shapes in which secrets appear, with places for generated values, and ordinary texts that must stay.

`«kind:n»` in a template is replaced by a value of that kind and length; every value is made up by a seeded
generator, none is or was a real secret. A template is a text, or data as an agent passes it.
"""
# ruff: noqa: E501

import base64
import json
import random
import re
import string
import uuid
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from token_shapes import TOKENS

_MARK = re.compile(r"«([a-z]\w*)(?::(\d+))?»")
_BASE62 = string.ascii_letters + string.digits
_ALPHABETS = {
    "b62": _BASE62,
    "b64": _BASE62 + "+/",
    "b64u": _BASE62 + "-_",
    "hex": "0123456789abcdef",
    "upper": string.ascii_uppercase + "234567",
    "lower": string.ascii_lowercase + string.digits,
    "digits": string.digits,
}
_WORDS = ("otter", "maple", "falcon", "quartz", "velvet", "copper", "meadow", "harbor", "juniper", "pepper")


class Shape(NamedTuple):
    """One way in which a secret appears: its name, and a template."""

    name: str
    template: Any


def fill(template: Any, rng: random.Random) -> tuple[Any, list[str]]:
    """Return the template with made-up values, and those values."""
    secrets: list[str] = []

    def make(match: re.Match[str]) -> str:
        secret = make_value(match[1], int(match[2] or 0), rng)
        secrets.append(secret)
        return secret

    def walk(item: Any) -> Any:
        if isinstance(item, str):
            return _MARK.sub(make, item)
        if isinstance(item, dict):
            return {walk(key): walk(inner) for key, inner in item.items()}
        return [walk(inner) for inner in item] if isinstance(item, list) else item

    return walk(template), secrets


def make_password(rng: random.Random) -> str:
    """Return the kind of password that people choose."""
    return rng.choice(_WORDS).capitalize() + str(rng.randint(10, 9999)) + rng.choice("!#-_")


def make_safe_password(rng: random.Random) -> str:
    """Return a password without a sign that means something to a shell or in an address."""
    word = rng.choice(_WORDS)
    return rng.choice([word, word.capitalize(), f"{rng.choice(_WORDS)}_{word}"]) + str(rng.randint(10, 9999))


def make_dotted(rng: random.Random) -> str:
    """Return letters and digits with a dot between them and a letter behind it, as an attribute is written."""
    return f"{make_value('b62', 6, rng)}.{rng.choice(string.ascii_letters)}{make_value('b62', 5, rng)}"


def make_any_password(rng: random.Random) -> str:
    """Return a password of one of the kinds that people and programs make, most of them with signs."""
    kind = rng.choice(("dotted", "chosen", "dashed", "signs", "signs", "letters"))
    if kind == "dotted":
        return make_dotted(rng)
    if kind == "chosen":
        return make_password(rng)
    if kind == "dashed":
        return f"{'-'.join(rng.sample(_WORDS, 2))}-{rng.randint(100, 9999)}"
    body = make_value("b62", 8, rng)
    return body + (rng.choice("!#%^*-_=+.~?@") + make_value("b62", 5, rng) if kind == "signs" else "")


_MAKERS = {
    "anypw": make_any_password,
    "pw": make_password,
    "safepw": make_safe_password,
    "lowpw": lambda rng: rng.choice(_WORDS) + str(rng.randint(10, 9999)),
    "wordpw": lambda rng: rng.choice(_WORDS) + rng.choice(_WORDS),
    "phrase": lambda rng: " ".join(rng.sample(_WORDS, 4)),
    "wallet": lambda rng: " ".join(rng.choices(_WORDS, k=rng.choice((12, 24)))),
    "dashed": lambda rng: "-".join(rng.sample(_WORDS, 4)),
    "uuid": lambda rng: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
    "pair64": lambda rng: base64.b64encode(f"ann:{make_password(rng)}".encode()).decode(),
    "b64pw": lambda rng: base64.b64encode(make_password(rng).encode()).decode(),
    "dotpw": make_dotted,
    "dotword": lambda rng: f"{rng.choice(_WORDS).capitalize()}{rng.randint(10, 9999)}.{rng.choice(_WORDS)}",
    "wordsnum": lambda rng: f"{'-'.join(rng.sample(_WORDS, 2))}-{rng.randint(100, 9999)}",
    "urlpw": lambda rng: f"{rng.choice(_WORDS)}%{rng.choice(['40', '21', '23'])}{rng.randint(100, 9999)}",
}


def make_value(kind: str, length: int, rng: random.Random) -> str:
    """Return a made-up value: random characters with all kinds in them, a password or a passphrase."""
    if kind in _MAKERS:
        return _MAKERS[kind](rng)
    alphabet = _ALPHABETS[kind]
    while True:
        value = "".join(rng.choice(alphabet) for _ in range(length or 24))
        mixed = any(map(str.isdigit, value)) and (kind == "digits" or any(map(str.isalpha, value)))
        if (mixed or kind == "digits") and value[0] not in "+/-_" and value[-1] not in "+/-_":
            return value


PEM = "-----BEGIN RSA PRIVATE KEY-----\n«b64:64»\n«b64:64»\n«b64:30»\n-----END RSA PRIVATE KEY-----"

NAMES = [
    "PASSWORD", "DB_PASS", "DB_PWD", "MYSQL_PWD", "CI_TOKEN", "GITHUB_TOKEN", "SECRET_KEY", "ENCRYPTION_KEY", "API_KEY",
    "AWS_SECRET_ACCESS_KEY", "STRIPE_SECRET", "SESSION_SECRET", "JWT_SECRET", "ACCESS_TOKEN", "REDIS_PASSWORD", "SMTP_PASS",
    "PGPASSWORD", "ROOT_PASSWORD", "WEBHOOK_SECRET", "SIGNING_KEY", "OPENAI_API_KEY", "NPM_TOKEN", "VAULT_TOKEN", "DEPLOY_KEY",
]  # fmt: skip

TEXTS = [
    *(Shape(f"environment: {name}", f"{name}=«lowpw»") for name in NAMES),
    *(Shape(f"exported: {name}", f'export {name}="«b62:20»"') for name in NAMES[::3]),
    Shape("assigned, spaces", "password = «pw»"),
    Shape("assigned in YAML", "database:\n  user: ann\n  password: «pw»\n  port: 5432"),
    Shape("assigned in YAML, a word", "smtp:\n  password: «wordpw»\n  host: mail"),
    Shape("assigned in YAML, quoted", 'api_key: "«b62:24»"'),
    Shape("assigned in a YAML block", "client_secret: |\n  «b62:30»\n"),
    Shape("assigned in a folded YAML block", "db_password: >-\n    «pw»\nname: x"),
    Shape("assigned in TOML", '[db]\nuser = "ann"\npassword = "«pw»"'),
    Shape("assigned in INI", "[client]\nuser=ann\npassword=«pw»\n"),
    Shape("assigned in INI, a word", "[client]\nuser = ann\npassword = «wordpw»\n"),
    Shape("assigned in JSON", '{"user": "ann", "password": "«pw»"}'),
    Shape("assigned in JSON, passphrase", '{"passphrase": "«phrase»"}'),
    Shape("assigned in Python", 'client = Client(api_key="«b62:24»", timeout=3)'),
    Shape("assigned in Python, typed", 'password: str = "«pw»"'),
    Shape("assigned to an attribute", 'self.password = "«pw»"'),
    Shape("assigned to a key", 'os.environ["API_TOKEN"] = "«b62:24»"'),
    Shape("assigned in JavaScript", "const apiKey = '«b62:24»';"),
    Shape("assigned in TypeScript", "const token: string = '«b62:24»';"),
    Shape("assigned in Go", 'password := "«pw»"'),
    Shape("assigned in Java", 'String dbPassword = "«pw»";'),
    Shape("assigned in C#", 'var clientSecret = "«b62:24»";'),
    Shape("assigned in PHP", "$db_password = '«pw»';"),
    Shape("assigned in a PHP array", "'password' => '«pw»',"),
    Shape("defined in PHP", "define('DB_PASSWORD', '«pw»');"),
    Shape("assigned in Ruby", ':password => "«pw»"'),
    Shape("assigned in a Ruby hash", "config = { password: '«pw»', user: 'ann' }"),
    Shape("assigned in Rust", 'let secret_key = "«b62:24»";'),
    Shape("assigned in Terraform", 'variable "x" {}\npassword = "«pw»"'),
    Shape("assigned in Perl", "my $passwd = '«pw»';"),
    Shape("assigned in a shell", "PASS='«pw»'; run"),
    Shape("assigned in PowerShell", '$env:API_TOKEN = "«b62:24»"'),
    Shape("assigned in a batch file", "set DB_PASSWORD=«pw»"),
    Shape("assigned in a Dockerfile", "ENV APP_SECRET=«b62:20»"),
    Shape("assigned in fish", "set -x GITHUB_TOKEN=«b62:36»"),
    Shape("in Java properties", "spring.datasource.password=«pw»"),
    Shape("in a connection string", "Server=db;Database=x;User Id=sa;Password=«pw»;Encrypt=true"),
    Shape("in a short connection string", "Server=db;Uid=sa;Pwd=«pw»;"),
    Shape("in a storage connection string", "AccountName=x;AccountKey=«b64:64»==;EndpointSuffix=y"),
    Shape("in a bus connection string", "Endpoint=sb://x/;SharedAccessKeyName=root;SharedAccessKey=«b64:43»="),
    Shape("in libpq form", "host=db user=ann password=«pw» dbname=x"),
    Shape("in SQL", "ALTER USER ann WITH PASSWORD '«pw»';"),
    Shape("in SQL, create", "CREATE ROLE ann LOGIN PASSWORD '«pw»'"),
    Shape("in a sentence", "The password is «pw»."),
    Shape("in a sentence, quoted", 'the password for ann is "«pw»", keep it'),
    Shape("in a sentence, with a colon", "your new password: «pw»"),
    Shape("in a sentence, token", "my API token is «b62:24»"),
    Shape("in a sentence, changed", "Password for ann was changed to «pw»"),
    Shape("with a comma in it", "DB_PASS=ab«b62:6»,x«b62:6»"),
    Shape("with a semicolon in it", "DB_PASS=ab«b62:6»;x«b62:6»"),
    Shape("with a quote in it", "DB_PASS=ab«b62:6»'x«b62:6»"),
    Shape("in camel case", '{"dbPassword":"«pw»","accessToken":"«b62:20»"}'),
    Shape("with dashes", "client-secret: «b62:30»"),
    Shape("numbered", "password2=«pw»"),
    Shape("a number", "password=«digits:8»"),
    Shape("XML element", "<server><username>ann</username><password>«pw»</password></server>"),
    Shape("XML attribute", '<user name="ann" password="«pw»"/>'),
    Shape("XML key and value", '<add key="ClearTextPassword" value="«pw»" />'),
    Shape("XML property", '<property name="connection.password" value="«pw»"/>'),
    Shape("XML, character data", "<password><![CDATA[«pw»]]></password>"),
    Shape("property list", "<key>apiToken</key>\n<string>«b62:24»</string>"),
    Shape("Hadoop", "<name>fs.s3a.secret.key</name>\n<value>«b62:40»</value>"),
    Shape("HTML form", '<input type="password" name="password" value="«pw»">'),
    Shape("log line", "2024-05-01 12:00:00 INFO login user=ann password=«pw» ip=10.0.0.1"),
    Shape("log line, JSON", '{"level":"info","msg":"auth","token":"«b62:32»"}'),
    Shape("Kubernetes environment", "- name: DB_PASSWORD\n  value: «pw»"),
    Shape("Kubernetes environment, quoted", 'env:\n  - name: API_TOKEN\n    value: "«b62:24»"'),
    Shape("GitHub Actions", "env:\n  NPM_TOKEN: «b62:36»"),
    Shape("pairs in JSON text", '[{"name": "DB_PASSWORD", "value": "«pw»"}]'),
    Shape("arguments in JSON text", '["app", "--password", "«pw»"]'),
    Shape("Python list of arguments", "subprocess.run(['app', '--token', '«b62:24»'])"),
    Shape("tuple", '("password", "«pw»")'),
    Shape("setter", 'props.setProperty("db.password", "«pw»");'),
    Shape("bare random text", "use «b62:40» for it"),
    Shape("bare secret key of AWS", "the key: «b64:40» ok"),
    Shape("SAS signature", "https://x.blob.core.windows.net/c?sv=2022&se=2024&sig=«b62:20»%2B«b62:20»%3D"),
]  # fmt: skip

COMMANDS = [
    Shape("--password X", "app login --user ann --password «pw»"),
    Shape("--password=X", "app login --password=«pw» --verbose"),
    Shape("--token X", "gh auth --token «b62:24»"),
    Shape("--pass X", "app --pass «pw» run"),
    Shape("--api-key X", "app --api-key «b62:24» list"),
    Shape("--secret in quotes", "app --client-secret '«pw»' run"),
    Shape("-password X", "java -jar x.jar -password «pw»"),
    Shape("--passphrase X", "gpg --batch --passphrase «pw» -d a.gpg"),
    Shape("--access-token=X", "cli deploy --access-token=«hex:40»"),
    Shape("curl -u", "curl -s -u ann:«pw» https://api.example.org"),
    Shape("curl --user", "curl --user 'ann:«pw»' https://api.example.org"),
    Shape("curl --user=", "curl --user=ann:«pw» https://api.example.org"),
    Shape("curl header", "curl -H 'Authorization: Bearer «b62:30»' https://x"),
    Shape("curl key header", 'curl -H "X-Api-Key: «b62:24»" https://x'),
    Shape("curl token header", 'curl --header "PRIVATE-TOKEN: «b62:20»" https://x'),
    Shape("curl cookie", "curl -b 'token=«b62:24»' https://x"),
    Shape("curl form", "curl -d 'user=ann&password=«pw»' https://x"),
    Shape("curl JSON", "curl -d '{\"password\":\"«pw»\"}' https://x"),
    Shape("wget", "wget --http-user=ann --http-password=«pw» https://x"),
    Shape("httpie", "http -a ann:«pw» GET https://x"),
    Shape("mysql -p", "mysql -u root -p«pw» shop"),
    Shape("mysql --password", "mysql -u root --password=«pw» shop"),
    Shape("mysqldump", "mysqldump -uroot -p«lowpw» shop > a.sql"),
    Shape("MYSQL_PWD", "MYSQL_PWD=«pw» mysql -u root"),
    Shape("PGPASSWORD", "PGPASSWORD='«pw»' psql -h db -U ann"),
    Shape("psql URL", "psql postgresql://ann:«lowpw»@db:5432/x"),
    Shape("sshpass", "sshpass -p '«pw»' ssh ann@host ls"),
    Shape("sshpass together", "sshpass -p«lowpw» scp a ann@host:"),
    Shape("docker login", "docker login -u ann -p «pw» registry.example.org"),
    Shape("docker environment", "docker run -e POSTGRES_PASSWORD=«pw» -p 5432:5432 postgres"),
    Shape("redis-cli", "redis-cli -h cache -a «pw» ping"),
    Shape("mongosh", "mongosh -u ann -p «pw» db"),
    Shape("ldapsearch", "ldapsearch -x -D cn=admin -w «pw» -b dc=x"),
    Shape("sqlcmd", "sqlcmd -S db -U sa -P «pw» -Q 'select 1'"),
    Shape("sqlplus", "sqlplus scott/«lowpw»@orcl"),
    Shape("smbclient", "smbclient //h/s -U ann%«pw»"),
    Shape("htpasswd", "htpasswd -b .htpasswd ann «pw»"),
    Shape("openssl", "openssl rsa -in k.pem -passin pass:«pw»"),
    Shape("unzip", "unzip -P «pw» a.zip"),
    Shape("echo into sudo", "export SUDO_PASSWORD=«pw»; sudo -S ls"),
    Shape("git clone", "git clone https://ann:«b62:24»@example.org/a.git"),
    Shape("git clone, token only", "git clone https://«b62:40»@example.org/a.git"),
    Shape("npm config", "npm config set //npm.example.com/:_authToken=«b62:36»"),
    Shape("kubectl", "kubectl create secret generic x --from-literal=password=«pw»"),
    Shape("helm", "helm install x --set auth.password=«pw»"),
    Shape("vault", "vault kv put secret/x password=«pw»"),
    Shape("aws configure", "aws configure set aws_secret_access_key «b62:40»"),
    Shape("az login", "az login --service-principal -u x --password «b62:34» --tenant y"),
]  # fmt: skip

HEADERS = [
    *(
        Shape(f"Authorization: {scheme}", f"Authorization: {scheme} «b62:32»")
        for scheme in ("Bearer", "bearer", "BEARER", "token", "Token", "ApiKey", "Key", "Negotiate", "AWS4-HMAC-SHA256")
    ),
    Shape("Authorization: Basic", "Authorization: Basic «pair64»"),
    Shape("Basic alone", "use Basic «pair64» please"),
    Shape("Bearer alone", "sent Bearer «b62:32» to it"),
    Shape("Authorization without a scheme", "authorization: «b62:40»"),
    Shape("Authorization: Digest", 'Authorization: Digest username="ann", realm="x", nonce="«hex:32»", response="«hex:32»"'),
    Shape("Proxy-Authorization", "Proxy-Authorization: Basic «pair64»"),
    Shape("Cookie", "Cookie: theme=dark; session=«b62:32»; lang=en"),
    Shape("Set-Cookie", "Set-Cookie: sid=«b62:32»; Path=/; HttpOnly"),
    Shape("cookie, session", "Cookie: PHPSESSID=«lower:26»"),
    *(
        Shape(f"header {name}", f"{name}: «b62:28»")
        for name in ("X-Api-Key", "X-Auth-Token", "PRIVATE-TOKEN", "X-Vault-Token", "api-key", "X-CSRF-Token", "x-goog-api-key", "Ocp-Apim-Subscription-Key", "X-Amz-Security-Token")
    ),
    Shape("whole request", "GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer «b62:32»\r\nAccept: */*\r\n\r\n"),
    Shape("headers in Python", "headers={'Authorization': 'Bearer «b62:32»', 'Accept': 'x'}"),
    Shape("headers in JavaScript", 'headers: { "X-Api-Key": "«b62:28»" }'),
    Shape("headers set", 'req.setHeader("X-Auth-Token", "«b62:28»")'),
]  # fmt: skip

URLS = [
    Shape("password", "https://ann:«lowpw»@example.org/a"),
    Shape("database", "postgres://ann:«lowpw»@db.example.org:5432/x?sslmode=require"),
    Shape("no user", "redis://:«lowpw»@cache:6379/0"),
    Shape("@ in it", "mysql://ann:«lowpw»@«lowpw»@db/x"),
    Shape("/ in it", "postgres://ann:«b62:6»/«b62:6»@db.example.org/x"),
    Shape("' in it", "postgres://ann:«b62:6»'«b62:6»@db.example.org/x"),
    Shape("escaped", "amqp://ann:«lowpw»%40«lowpw»@mq:5672"),
    Shape("token as user", "https://«hex:40»@example.org/a.git"),
    Shape("token as user, OAuth", "https://oauth2:«b62:26»@gitlab.example.org/a.git"),
    Shape("access token of a CI", "https://x-access-token:«b62:36»@github.com/a/b"),
    Shape("mongodb", "mongodb+srv://ann:«lowpw»@cluster0.x.mongodb.net/db"),
    Shape("DSN of an error service", "https://«hex:32»@o1234.ingest.sentry.io/56789"),
    Shape("Go data source", "ann:«lowpw»@tcp(db:3306)/x"),
    Shape("?token=", "https://example.org/a?token=«b62:24»&x=1"),
    Shape("?api_key=", "https://example.org/a?x=1&api_key=«hex:32»"),
    Shape("?key=", "https://example.org/a?key=«b62:28»"),
    Shape("?access_token=", "wss://example.org/s?access_token=«b62:40»"),
    Shape("#access_token=", "https://example.org/cb#access_token=«b62:40»&state=x"),
    Shape("?password=", "https://example.org/login?user=ann&password=«lowpw»"),
    Shape("?client_secret=", "https://example.org/t?client_id=a&client_secret=«b62:30»"),
    Shape("signed address of AWS", "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=A&X-Amz-Signature=«hex:64»"),
    Shape("Slack webhook", "https://hooks.slack.com/services/T012AB3CD/B012AB3CD/«b62:24»"),
    Shape("Slack workflow", "https://hooks.slack.com/workflows/T012AB3CD/A012AB3CD/«b62:24»"),
    Shape("Discord webhook", "https://discord.com/api/webhooks/112233445566778899/«b64u:68»"),
    Shape("Teams webhook", "https://x.webhook.office.com/webhookb2/«hex:32»@«hex:32»/IncomingWebhook/«hex:32»"),
    Shape("Telegram", "https://api.telegram.org/bot123456789:AA«b64u:33»/sendMessage"),
    Shape("proxy", "HTTPS_PROXY=http://ann:«lowpw»@proxy:3128"),
    Shape("ftp", "ftp://ann:«lowpw»@files.example.org/x"),
    Shape("JDBC", "jdbc:mysql://db:3306/x?user=ann&password=«lowpw»"),
]  # fmt: skip

FILES = [
    Shape("netrc, one line", "machine api.example.org login ann password «lowpw»"),
    Shape("netrc, lines", "machine api.example.org\n  login ann\n  password «lowpw»\n"),
    Shape("netrc, default", "default login ann password «wordpw»"),
    Shape("htpasswd, apr1", "ann:$apr1$«b62:8»$«b62:22»"),
    Shape("htpasswd, bcrypt", "ann:$2y$10$«b62:53»"),
    Shape("htpasswd, SHA", "ann:{SHA}«b64:27»="),
    Shape("shadow", "root:$6$«b62:16»$«b62:86»:19000:0:99999:7:::"),
    Shape("argon2", "$argon2id$v=19$m=65536,t=3,p=4$«b62:22»$«b62:43»"),
    Shape(".npmrc token", "//npm.example.com/:_authToken=«b62:36»"),
    Shape(".npmrc auth", "_auth=«pair64»"),
    Shape(".npmrc password", "//r.example.org/:_password=«b62:24»"),
    Shape(".pypirc", "[pypi]\nusername = __token__\npassword = pypi-«b64u:60»"),
    Shape(".pypirc, password", "[server]\nusername: ann\npassword: «pw»"),
    Shape("kubeconfig token", "users:\n- name: a\n  user:\n    token: «b62:40»"),
    Shape("kubeconfig key", "    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ«b64:120»="),
    Shape("Docker config", '{"auths": {"https://index.docker.io/v1/": {"auth": "«pair64»"}}}'),
    Shape("environment file", "# settings\nDEBUG=1\nSECRET_KEY=«b62:50»\nPORT=8000\n"),
    Shape("AWS credentials", "[default]\naws_access_key_id = AKIA«upper:16»\naws_secret_access_key = «b64:40»"),
    Shape("git credentials", "https://ann:«b62:24»@github.com"),
    Shape("Maven settings", "<server>\n  <id>x</id>\n  <username>ann</username>\n  <password>«pw»</password>\n</server>"),
    Shape("NuGet", '<packageSourceCredentials><x><add key="Username" value="ann" /><add key="Password" value="«pw»" /></x></packageSourceCredentials>'),
    Shape("Rails", "production:\n  secret_key_base: «hex:128»"),
    Shape("WordPress", "define( 'AUTH_KEY', '«b62:64»' );"),
    Shape("Terraform variables", 'db_password = "«pw»"\nregion = "eu"'),
    Shape("my.cnf", '[client]\nuser=root\npassword="«pw»"'),
    Shape("redis.conf", "requirepass «lowpw»"),
    Shape("pgpass", "PGPASSWORD=«pw»"),
    Shape("gradle", "signing.password=«pw»\nossrhPassword=«pw»"),
    Shape("service account", '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\n«b64:64»\\n-----END PRIVATE KEY-----\\n"}'),
    Shape("wpa_supplicant", 'network={\n  ssid="x"\n  psk="«pw»"\n}'),
    Shape("WireGuard", "[Interface]\nPrivateKey = «b64:43»=\nListenPort = 51820"),
    Shape("JSON web key", {"kty": "RSA", "n": "abc", "e": "AQAB", "d": "«b64u:86»"}),
]  # fmt: skip

PEMS = [
    Shape("plain", PEM),
    Shape("escaped line breaks", PEM.replace("\n", "\\n")),
    Shape("escaped twice", PEM.replace("\n", "\\\\n")),
    Shape("carriage returns", PEM.replace("\n", "\r\n")),
    Shape("one line", PEM.replace("\n", " ")),
    Shape("OpenSSH", PEM.replace("RSA", "OPENSSH")),
    Shape("EC", PEM.replace("RSA", "EC")),
    Shape("PGP", PEM.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK")),
    Shape("encrypted", PEM.replace("RSA", "ENCRYPTED")),
    Shape("indented", "key: |\n  " + PEM.replace("\n", "\n  ")),
    Shape("URL-encoded", quote(PEM.replace("«b64:64»", "BODY").replace("«b64:30»", "BODY")).replace("BODY", "«b62:64»")),
    Shape("with plus signs", PEM.replace(" ", "+").replace("\n", "%0A")),
    Shape("unfinished", "-----BEGIN PRIVATE KEY-----\n«b64:64»\n«b64:40»"),
]  # fmt: skip

NESTED = [
    Shape("JSON in JSON", json.dumps(json.dumps({"password": "«pw»"}, ensure_ascii=False), ensure_ascii=False)),
    Shape(
        "JSON in JSON in JSON",
        json.dumps({"b": json.dumps({"a": json.dumps({"apiKey": "«b62:24»"}, ensure_ascii=False)}, ensure_ascii=False)}, ensure_ascii=False),
    ),
    Shape("bytes", "b'password=«pw»'"),
    Shape("bytes, JSON", "b'{\"token\": \"«b62:24»\"}'"),
    Shape("URL-encoded JSON", "data=%7B%22password%22%3A%22«lowpw»%22%7D"),
    Shape("URL-encoded form", "redirect=%2Flogin%3Fuser%3Dann%26password%3D«lowpw»%26x%3D1"),
    Shape("HTML-escaped JSON", "{&quot;password&quot;:&quot;«lowpw»&quot;}"),
    Shape("JavaScript escapes", "{\\u0022password\\u0022:\\u0022«lowpw»\\u0022}"),
    Shape("escaped line breaks", "user=ann\\npassword=«pw»\\nport=1"),
    Shape("token behind an escaped line break", "done\\nghp_«b62:36»\\n"),
    Shape("token behind a URL escape", "x%3Dghp_«b62:36»"),
    Shape("multipart", '--b\r\nContent-Disposition: form-data; name="password"\r\n\r\n«pw»\r\n--b--'),
    Shape("multipart, escaped", '--b\\r\\nContent-Disposition: form-data; name=\\"token\\"\\r\\n\\r\\n«b62:24»\\r\\n--b--'),
    Shape("repr of a dict", "{'user': 'ann', 'password': '«pw»'}"),
    Shape("repr of an object", "Config(user='ann', password='«pw»', port=1)"),
    Shape("diff", "-DB_PASSWORD=«lowpw»\n+DB_PASSWORD=«lowpw»"),
    Shape("grep output", "config/app.env:12:API_KEY=«b62:24»"),
    Shape("numbered lines", "    12\tAPI_KEY=«b62:24»\n    13\tX=1"),
    Shape("Markdown", "Use `API_KEY=«b62:24»` in the shell"),
    Shape("traceback", "ValueError: invalid key for api_key='«b62:24»'"),
    Shape("shell trace", "+ export TOKEN=«b62:24»"),
]  # fmt: skip

FIELDS = [
    *(
        Shape(f"field {name}", {"user": "ann", name: "«lowpw»"})
        for name in ("password", "passwd", "pwd", "pass", "passphrase", "secret", "db_pass", "dbPassword", "PASSWORD", "user_password", "client_secret", "newPassword", "credentials")
    ),
    *(
        Shape(f"field {name}", {"id": 7, name: "«b62:24»"})
        for name in ("token", "api_key", "apiKey", "api-key", "access_token", "refreshToken", "auth", "key", "authorization", "X-Api-Key", "private_key", "secretAccessKey", "sessionToken", "bearer", "encryption_key", "cookie", "webhook_secret", "signing_key", "github_token", "jwt")
    ),
    Shape("a word", {"password": "«wordpw»"}),
    Shape("a passphrase", {"passphrase": "«phrase»"}),
    Shape("a list", {"passwords": ["«lowpw»", "«lowpw»"]}),
    Shape("an object", {"credentials": {"username": "ann", "password": "«lowpw»"}}),
    Shape("an object without names", {"secret": {"data": "«b62:24»"}}),
    Shape("deep", {"a": [{"b": {"c": {"db_password": "«pw»"}}}]}),
    Shape("pair", {"name": "DB_PASSWORD", "value": "«lowpw»"}),
    Shape("pair, key", {"key": "API_TOKEN", "value": "«b62:24»"}),
    Shape("pair, header", {"header": "Authorization", "value": "Bearer «b62:32»"}),
    Shape("pair, capital", {"Name": "SECRET_KEY", "Value": "«b62:24»"}),
    Shape("pairs", {"env": [{"name": "A", "value": "1"}, {"name": "API_KEY", "value": "«b62:24»"}]}),
    Shape("pair, parameter", {"ParameterKey": "x", "parameter": "DbPassword", "ParameterValue": "«lowpw»"}),
    Shape("headers as pairs", {"headers": [["Accept", "x"], ["Authorization", "Bearer «b62:32»"]]}),
    Shape("headers as pairs, key", [["x-api-key", "«b62:28»"], ["a", "b"]]),
    Shape("headers as pairs, cookie", [["Cookie", "sid=«b62:32»"]]),
    Shape("arguments --password", {"argv": ["app", "--password", "«lowpw»", "run"]}),
    Shape("arguments --password, a word", {"argv": ["app", "--password", "«wordpw»", "run"]}),
    Shape("arguments --password=", ["app", "--password=«lowpw»"]),
    Shape("arguments --token", ["gh", "--token", "«b62:24»"]),
    Shape("arguments mysql -p", ["mysql", "-u", "root", "-p«lowpw»"]),
    Shape("arguments mysql -p apart", ["mysql", "-p", "«lowpw»"]),
    Shape("arguments curl -u", ["curl", "-u", "ann:«lowpw»", "https://x"]),
    Shape("arguments curl -H", ["curl", "-H", "Authorization: Bearer «b62:32»", "https://x"]),
    Shape("arguments sshpass", ["sshpass", "-p", "«lowpw»", "ssh", "h"]),
    Shape("arguments path", ["/usr/bin/redis-cli", "-a", "«lowpw»"]),
    Shape("arguments docker login", ["docker", "login", "-u", "ann", "-p", "«lowpw»"]),
    Shape("command text", {"command": "curl -u ann:«lowpw» https://x"}),
    Shape("JSON text in a field", {"body": '{"password": "«lowpw»"}'}),
    Shape("JSON text twice", {"body": json.dumps({"x": '{"password": "«lowpw»"}'}, ensure_ascii=False)}),
    Shape("a key", {"a": 1, "ghp_«b62:36»": 2}),
    Shape("Docker config", {"auths": {"https://r.example.org": {"auth": "«pair64»"}}}),
    Shape("connection", {"dsn": "postgres://ann:«lowpw»@db/x"}),
    Shape("a number", {"password": "«digits:6»"}),
    Shape("random value under a plain name", {"x": "«b62:40»"}),
]  # fmt: skip

AROUND = ["{}", "the token is {} now", "x={}", '"{}"', "see {}.", "https://example.org/{}"]
"""What may be around a token; one of them is used for each."""

VENDORS = [
    Shape(f"token: {name}", AROUND[i % len(AROUND)].format(token)) for i, (name, token) in enumerate(TOKENS)
]

FURTHER = [
    Shape(f"{shape['group']} {number}", shape["template"])
    for number, shape in enumerate(
        map(json.loads, Path(__file__).with_name("further_shapes.jsonl").read_text("utf-8").splitlines())
    )
]
"""Shapes that were written to find what the rules miss, some of which they still do."""

GROUPS = {
    "text": TEXTS, "command": COMMANDS, "header": HEADERS, "URL": URLS, "file": FILES, "private key": PEMS,
    "nested": NESTED, "field": FIELDS, "vendor": VENDORS,
}  # fmt: skip
