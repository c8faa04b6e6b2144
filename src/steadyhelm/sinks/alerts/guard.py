"""Where alerts must never go: loopback, private networks, metadata services, unless allowed by name.

A webhook's address comes from a settings file, and the name in it is answered by somebody else's DNS.
So the name is resolved once, every address it has is judged, and the connection goes to a judged
address and no other (`steadyhelm.sinks.alerts.transport`).
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

_PORTS: Final = {"https": 443, "http": 80}
_FORBIDDEN: Final = re.compile(r"[\s\\\x00-\x1f\x7f]")
_NUMERIC_END: Final = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)$")
_NAME: Final = re.compile(r"(?!.{254})[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")

_PATH_SAFE: Final = "/%:@!$&'()*+,;=~"

_METADATA: Final = frozenset(
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
# These overlap: the most telling comes first.
_FAULTS: Final = (
    ("unspecified", "is_unspecified"),
    ("loopback", "is_loopback"),
    ("link-local", "is_link_local"),
    ("multicast", "is_multicast"),
    ("reserved", "is_reserved"),
    ("private", "is_private"),
)
_CARRIER: Final = ipaddress.ip_network("100.64.0.0/10")
_RELAYS: Final = ipaddress.ip_network("192.88.99.0/24")
_GLOBAL_V6: Final = ipaddress.ip_network("2000::/3")
_DOCUMENTATION_V6: Final = ipaddress.ip_network("3fff::/20")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


class Target(Struct, frozen=True, kw_only=True):
    """A webhook's URL taken apart. The path is a secret: whoever knows it may post."""

    scheme: str
    host: str
    port: int
    path: str

    def __repr__(self) -> str:
        return f"Target({self.scheme}://{self.host})"


def parsed(url: str, *, setting: str = "alerts.webhook") -> Target:
    """The parts of a webhook's URL, its host in canonical form.

    What is wrong with a URL is said without showing it: SettingsError.
    """
    try:
        return _taken_apart(url)
    except ValueError as exc:
        raise SettingsError(
            f"{setting} must be a URL such as https://example.org/hook, got one that is not: {exc}."
        ) from exc


def host_of(url: str) -> str:
    """The canonical host of a URL; empty when it has none."""
    try:
        return parsed(url).host
    except SettingsError:
        return ""


def canonical_host(host: str) -> str:
    """A host name in the one form that is compared: lower case, ASCII, no final dot, numbers written out.

    >>> [canonical_host(host) for host in ("Example.ORG.", "0x7f.1", "2130706433", "[2001:DB8::1]")]
    ['example.org', '127.0.0.1', '127.0.0.1', '2001:db8::1']
    """
    bare = host.strip("[]")
    if ":" in bare:
        return str(ipaddress.IPv6Address(bare.split("%", 1)[0]))
    if not bare.isascii():
        bare = _ascii(bare)
    bare = bare.lower().removesuffix(".")
    if _NUMERIC_END.search(bare):
        return _written_out(bare)
    if not _NAME.fullmatch(bare):
        raise ValueError("its host is not a name or an address")
    return bare


def system_resolve(host: str, port: int) -> list[str]:
    """Every address the system knows for a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class AddressGuard:
    """Judges hosts and addresses.

    Args:
        allow_hosts: Hosts that may have any address, and may be spoken to without TLS.
        resolve: Gives every address of a host.
    """

    def __init__(self, allow_hosts: Iterable[str] = (), *, resolve: Resolve = system_resolve) -> None:
        self._resolve = resolve
        self._allowed = frozenset(_allowed(host) for host in allow_hosts)

    def screen(self, target: Target) -> None:
        """Refuse what can be refused without asking anybody for an address."""
        if target.host in self._allowed:
            return
        if target.scheme != "https":
            raise _refusal(target.host, "it would be sent unencrypted over http")
        try:
            address = ipaddress.ip_address(target.host)
        except ValueError:
            return
        self.judge(target.host, str(address))

    def addresses(self, host: str, port: int) -> list[str]:
        """Every address of a host, if all of them may be connected to; raises AddressRefusedError if not.

        One bad address among good ones refuses the host: which of them is used would be luck.
        """
        found = list(self._resolve(host, port))
        if not found:
            raise OSError(f"{host} has no address")
        for address in found:
            self.judge(host, address)
        return found

    def judge(self, host: str, address: str) -> None:
        """Refuse an address, unless its host is allowed by name."""
        if canonical_host(host) in self._allowed:
            return
        try:
            fault = fault_of(ipaddress.ip_address(address))
        except ValueError:
            fault = "not an address"
        if fault:
            raise _refusal(host, f"{address[:64]} is {fault}")


def fault_of(address: IPAddress) -> str:
    """Why nothing is sent to this address; empty when it is an ordinary public one.

    >>> [fault_of(ipaddress.ip_address(text)) for text in ("8.8.8.8", "10.0.0.1", "2002:7f00:1::")]
    ['', 'private', 'loopback']
    """
    if isinstance(address, ipaddress.IPv6Address):
        return _fault_of_v6(address)
    named = _named_fault(address)
    if named:
        return named
    if address in _CARRIER:
        return "carrier-grade NAT"
    return "reserved" if address in _RELAYS or not address.is_global else ""


def _fault_of_v6(address: ipaddress.IPv6Address) -> str:
    if address.scope_id:
        return "link-local"
    for inner in _embedded(address):
        fault = fault_of(inner)
        if fault:
            return fault
    if address.ipv4_mapped or address in _NAT64:
        return ""
    named = _named_fault(address)
    if named:
        return named
    is_public = address in _GLOBAL_V6 and address not in _DOCUMENTATION_V6 and address.is_global
    return "" if is_public else "reserved"


def _named_fault(address: IPAddress) -> str:
    if address in _METADATA:
        return "a metadata service"
    return next((name for name, attribute in _FAULTS if getattr(address, attribute)), "")


def _embedded(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that a packet to this address may end up at."""
    low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped or address in _NAT64:
        return [low]
    if address.sixtofour:
        return [address.sixtofour]
    return list(address.teredo) if address.teredo else []


def _refusal(host: str, why: str) -> AddressRefusedError:
    return AddressRefusedError(
        f"No alert is sent to {host}: {why}. "
        f"If it is meant to go there, add {host!r} to the alerts' allow_hosts."
    )


def _allowed(host: str) -> str:
    try:
        return canonical_host(host)
    except ValueError as exc:
        raise SettingsError(
            f"alerts.allow_hosts must hold names or addresses without scheme, port or path, got {host!r}."
        ) from exc


def _ascii(host: str) -> str:
    import idna  # noqa: PLC0415 - most hosts are ASCII: pay for the tables only when one is not

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError as exc:
        raise ValueError("its host cannot be written in ASCII") from exc


def _written_out(host: str) -> str:
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError as exc:
        raise ValueError("its host ends in a number and is no address") from exc


def _taken_apart(url: str) -> Target:
    if _FORBIDDEN.search(url):
        raise ValueError("it holds a space, a backslash or a control character")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS:
        raise ValueError("it does not begin with https:// or http://")
    if "@" in parts.netloc:
        raise ValueError("it holds a user name or password")
    return Target(
        scheme=parts.scheme,
        host=canonical_host(parts.hostname or ""),
        port=_PORTS[parts.scheme] if parts.port is None else parts.port,
        path=_path(parts),
    )


def _path(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe=_PATH_SAFE)
    return f"{path}?{quote(parts.query, safe=_PATH_SAFE + '?')}" if parts.query else path
