"""Settings and health, keys, sessions, and the live stream."""

from typing import Annotated, Literal

from msgspec import Meta

from steadyhelm.server.records.common import Count, Key, Reason, Record, Request, RunRow, Scope

Source = Literal["default", "file", "environment", "argument"]


class SettingValue(Record, frozen=True, kw_only=True):
    """One setting: its value as text, where it comes from, its default, and what it is for.

    A secret's value is `set` or `not set`.
    """

    name: str
    value: str
    source: Source
    origin: str
    default: str
    about: str


class SettingList(Record, frozen=True, kw_only=True):
    """Every setting as this server reads it; an agent's process may read others."""

    settings: list[SettingValue]
    file: str


class DetectorError(Record, frozen=True, kw_only=True):
    """A detector that raised. The agent went on."""

    detector: str
    count: int
    last_at: float | None


class Health(Record, frozen=True, kw_only=True):
    """How well Steadyhelm itself does.

    `lost` and `errors` are counted by reason; `not_checked` are the reasons of the agents' latest runs.
    `behind_s` is how long ago the newest step was stored, None before the first.
    """

    version: str
    database: str
    database_bytes: int
    runs: int
    events: int
    behind_s: float | None
    lost: list[Count]
    errors: list[Count]
    not_checked: list[Reason]
    detector_errors: list[DetectorError]
    streams: int
    started_at: float


class Channel(Record, frozen=True, kw_only=True):
    """A channel that alerts go to. Its address is never shown, only its host."""

    name: str
    host: str
    min_severity: str
    pending: int
    failed: int
    last_sent_at: float | None


class DeliveryRow(Record, frozen=True, kw_only=True):
    """One alert of the delivery log."""

    delivery_id: str
    channel: str
    agent: str
    incident_id: str
    reason: str
    state: str
    attempts: int
    created_at: float
    error: str


class Channels(Record, frozen=True, kw_only=True):
    """The channels, and the latest 50 deliveries."""

    channels: list[Channel]
    deliveries: list[DeliveryRow]


class TestResult(Record, frozen=True, kw_only=True):
    """How a test alert went."""

    sent: bool
    message: str


class ApiKey(Record, frozen=True, kw_only=True):
    """A personal API key. The key itself is shown once, when it is made."""

    id: int
    name: str
    prefix: str
    scopes: list[Scope]
    created_at: float
    expires_at: float | None
    last_used_at: float | None


class ApiKeys(Record, frozen=True, kw_only=True):
    """All keys that were not revoked."""

    keys: list[ApiKey]


class NewKey(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a key."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=3)]
    days: Annotated[float, Meta(gt=0, le=366)] | None = 90


class MadeKey(Record, frozen=True, kw_only=True):
    """The key that was made. `secret` is shown now and never again."""

    key: ApiKey
    secret: str


class AuditRow(Record, frozen=True, kw_only=True):
    """Who changed what, and when."""

    id: int
    at: float
    by: str
    action: str
    object: str
    detail: str


class Audit(Record, frozen=True, kw_only=True):
    """The latest changes. Pass `next` as `before` for the next page."""

    rows: list[AuditRow]
    next: int | None


class Retention(Record, frozen=True, kw_only=True):
    """How long payloads and runs are kept, and how much there is now, in rows and bytes."""

    payload_days: float
    run_days: float
    tables: list[Count]
    bytes: int
    oldest_run_at: float | None
    payloads_due: int
    runs_due: int


class Pruned(Record, frozen=True, kw_only=True):
    """What was deleted because it is older than retention allows."""

    payloads: int
    runs: int
    events: int


class RedactText(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Text to redact; it is not stored."""

    text: Annotated[str, Meta(max_length=20_000)]


class Redacted(Record, frozen=True, kw_only=True):
    """The text as it would be stored. A marker names the rule, never the match."""

    text: str
    rules: list[Count]


class SignIn(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sign in with the token of the server's file, or with the one-time code of `--open`."""

    token: Annotated[str, Meta(max_length=200)] = ""
    code: Annotated[str, Meta(max_length=200)] = ""


class SignedIn(Record, frozen=True, kw_only=True):
    """A session. A cookie is set too; every request needs both.

    Keep `secret` in session storage, and send it as the header `Steadyhelm-Secret`: a cookie goes to every
    port of the host, the header does not. Another tab gets it from this one over a BroadcastChannel, or signs
    in.
    """

    secret: str
    by: str
    scopes: list[Scope]
    expires_at: float


class Session(Record, frozen=True, kw_only=True):
    """Who is signed in. `version` is the server's version, `page` the digest of the page it serves."""

    by: str
    scopes: list[Scope]
    expires_at: float | None
    version: str
    page: str
    public_url: str
    demo: bool


class Change(Record, frozen=True, kw_only=True):
    """One event of the stream (`event: change`): what is new since the one before.

    `runs` are the changed rows, complete, newest change first. `incidents` has the agents whose incidents
    changed, `agents` those whose baselines or declarations did, `settings` says that keys, mutes or marks
    changed.
    """

    id: int
    at: float
    runs: list[RunRow]
    incidents: list[Key]
    agents: list[Key]
    settings: bool
    open_incidents: int


class Reset(Record, frozen=True, kw_only=True):
    """`event: reset`: what happened in between is no longer known; load everything again.

    `event: hello` has the same shape, is the first of every stream, and says where it begins.
    """

    id: int
    at: float
    open_incidents: int
