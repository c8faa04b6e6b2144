"""Refuse addresses that alerts must not reach: loopback, private networks, metadata services.

A webhook's URL comes from a settings file, and its host name is resolved by a DNS server we do not control.
So the name is resolved once, every address is checked, and the connection goes to a checked address only
(`steadyhelm.sinks.alerts.transport`).
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from msgspec import Struct

from steadyhelm.errors import AddressRefusedError, SettingsError

Resolve = Callable[[str, int], Sequence[str]]
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_FORBIDDEN_CHARACTERS: Final = re.compile(r"[\s\\\x00-\x1f\x7f]")
_NUMERIC_END: Final = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)$")
_HOST_NAME: Final = re.compile(r"(?!.{254})[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")

_PATH_SAFE: Final = "/%:@!$&'()*+,;=~"

_METADATA_ADDRESSES: Final = frozenset(
    ipaddress.ip_address(address)
    for address in (
        "169.254.169.254",  # most clouds
        "169.254.170.2",  # container credentials
        "fd00:ec2::254",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",  # answers from a public-looking range
    )
)
# These overlap: the most specific comes first.
_FAULTS: Final = (
    ("unspecified", "is_unspecified"),
    ("loopback", "is_loopback"),
    ("link-local", "is_link_local"),
    ("multicast", "is_multicast"),
    ("reserved", "is_reserved"),
    ("private", "is_private"),
)
_CARRIER_NAT: Final = ipaddress.ip_network("100.64.0.0/10")
_RELAY_NETWORK: Final = ipaddress.ip_network("192.88.99.0/24")
_GLOBAL_V6: Final = ipaddress.ip_network("2000::/3")
_DOCUMENTATION_V6: Final = ipaddress.ip_network("3fff::/20")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


class WebhookURL(Struct, frozen=True, kw_only=True):
    """The parts of a webhook's URL. The path is a secret: everyone who knows it may post."""

    scheme: str
    host: str
    port: int
    path: str

    def __repr__(self) -> str:
        return f"WebhookURL({self.scheme}://{self.host})"


def parse_url(url: str, *, setting: str = "alerts.webhook") -> WebhookURL:
    """Return the parts of a webhook's URL, its host in normal form.

    Raises SettingsError with a message that does not show the URL.
    """
    try:
        return _split_url(url)
    except ValueError as exc:
        raise SettingsError(
            f"{setting} must be a URL such as https://example.org/hook, got one that is not: {exc}."
        ) from exc


def get_host(url: str) -> str:
    """Return the normalized host of a URL; empty when it has none."""
    try:
        return parse_url(url).host
    except SettingsError:
        return ""


def normalize_host(host: str) -> str:
    """Return a host name in the form that is compared: lower case, ASCII, no final dot, dotted numbers.

    >>> [normalize_host(host) for host in ("Example.ORG.", "0x7f.1", "2130706433", "[2001:DB8::1]")]
    ['example.org', '127.0.0.1', '127.0.0.1', '2001:db8::1']
    """
    bare = host.strip("[]")
    if ":" in bare:
        return str(ipaddress.IPv6Address(bare.split("%", 1)[0]))
    if not bare.isascii():
        bare = _to_ascii(bare)
    bare = bare.lower().removesuffix(".")
    if _NUMERIC_END.search(bare):
        return _to_dotted(bare)
    if not _HOST_NAME.fullmatch(bare):
        raise ValueError("its host is not a name or an address")
    return bare


def resolve_with_system(host: str, port: int) -> list[str]:
    """Return every address the system knows for a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class AddressGuard:
    """Checks hosts and addresses.

    Args:
        allow_hosts: Hosts that may have any address, and need no TLS.
        resolve: Returns every address of a host.
    """

    def __init__(self, allow_hosts: Iterable[str] = (), *, resolve: Resolve = resolve_with_system) -> None:
        self._resolve = resolve
        self._allowed = frozenset(_normalize_allowed_host(host) for host in allow_hosts)

    def check_url(self, target: WebhookURL) -> None:
        """Raise AddressRefusedError for a URL that can be refused without resolving its host."""
        if target.host in self._allowed:
            return
        if target.scheme != "https":
            raise _build_refusal(target.host, "it would be sent unencrypted over http")
        try:
            address = ipaddress.ip_address(target.host)
        except ValueError:
            return
        self.check_address(target.host, str(address))

    def resolve(self, host: str, port: int) -> list[str]:
        """Return every address of a host. Raises AddressRefusedError unless all of them are allowed.

        One refused address among allowed ones refuses the host: which of them is used would be chance.
        """
        found = list(self._resolve(host, port))
        if not found:
            raise OSError(f"{host} has no address")
        for address in found:
            self.check_address(host, address)
        return found

    def check_address(self, host: str, address: str) -> None:
        """Raise AddressRefusedError for an address that is not public, unless its host is allowed by name."""
        if normalize_host(host) in self._allowed:
            return
        try:
            fault = find_fault(ipaddress.ip_address(address))
        except ValueError:
            fault = "not an address"
        if fault:
            raise _build_refusal(host, f"{address[:64]} is {fault}")


def check_alert_address(url: str, allow_hosts: Iterable[str] = ()) -> None:
    """Raise SteadyhelmError for an address that no alert is sent to; none is looked up. Empty is none."""
    guard = AddressGuard(allow_hosts)
    if url:
        guard.check_url(parse_url(url))


def find_fault(address: IPAddress) -> str:
    """Return why this address is refused; empty when it is an ordinary public one.

    >>> [find_fault(ipaddress.ip_address(text)) for text in ("8.8.8.8", "10.0.0.1", "2002:7f00:1::")]
    ['', 'private', 'loopback']
    """
    if isinstance(address, ipaddress.IPv6Address):
        return _find_v6_fault(address)
    named = _find_special_range(address)
    if named:
        return named
    if address in _CARRIER_NAT:
        return "carrier-grade NAT"
    return "reserved" if address in _RELAY_NETWORK or not address.is_global else ""


def _find_v6_fault(address: ipaddress.IPv6Address) -> str:
    if address.scope_id:
        return "link-local"
    for inner in _list_embedded(address):
        fault = find_fault(inner)
        if fault:
            return fault
    if address.ipv4_mapped or address in _NAT64:
        return ""
    named = _find_special_range(address)
    if named:
        return named
    is_public = address in _GLOBAL_V6 and address not in _DOCUMENTATION_V6 and address.is_global
    return "" if is_public else "reserved"


def _find_special_range(address: IPAddress) -> str:
    if address in _METADATA_ADDRESSES:
        return "a metadata service"
    return next((name for name, attribute in _FAULTS if getattr(address, attribute)), "")


def _list_embedded(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses that a packet to this address may reach."""
    low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped or address in _NAT64:
        return [low]
    if address.sixtofour:
        return [address.sixtofour]
    return list(address.teredo) if address.teredo else []


def _build_refusal(host: str, why: str) -> AddressRefusedError:
    return AddressRefusedError(
        f"No alert is sent to {host}: {why}. "
        f"If it is meant to go there, add {host!r} to the alerts' allow_hosts."
    )


def _normalize_allowed_host(host: str) -> str:
    try:
        return normalize_host(host)
    except ValueError as exc:
        raise SettingsError(
            f"alerts.allow_hosts must hold names or addresses without scheme, port or path, got {host!r}."
        ) from exc


def _to_ascii(host: str) -> str:
    import idna  # noqa: PLC0415 - most hosts are ASCII: pay for the tables only when one is not

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError as exc:
        raise ValueError("its host cannot be written in ASCII") from exc


def _to_dotted(host: str) -> str:
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError as exc:
        raise ValueError("its host ends in a number and is no address") from exc


def _split_url(url: str) -> WebhookURL:
    if _FORBIDDEN_CHARACTERS.search(url):
        raise ValueError("it holds a space, a backslash or a control character")
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError("it does not begin with https:// or http://")
    if "@" in parts.netloc:
        raise ValueError("it holds a user name or password")
    return WebhookURL(
        scheme=parts.scheme,
        host=normalize_host(parts.hostname or ""),
        port=_DEFAULT_PORTS[parts.scheme] if parts.port is None else parts.port,
        path=_join_path(parts),
    )


def _join_path(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe=_PATH_SAFE)
    return f"{path}?{quote(parts.query, safe=_PATH_SAFE + '?')}" if parts.query else path
