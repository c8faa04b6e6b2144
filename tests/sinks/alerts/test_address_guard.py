import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.errors import AddressRefusedError, SettingsError
from steadyhelm.sinks.alerts.address_guard import (
    AddressGuard,
    find_fault,
    get_host,
    normalize_host,
    parse_url,
)

REFUSED = {
    "127.0.0.1": "loopback",
    "127.255.0.9": "loopback",
    "::1": "loopback",
    "10.1.2.3": "private",
    "172.16.0.1": "private",
    "192.168.1.1": "private",
    "fd12:3456::1": "private",
    "169.254.1.1": "link-local",
    "fe80::1": "link-local",
    "fe80::1%2": "link-local",
    "100.64.0.1": "carrier-grade NAT",
    "224.0.0.1": "multicast",
    "ff0e::1": "multicast",
    "0.0.0.0": "unspecified",
    "::": "unspecified",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "192.88.99.1": "reserved",
    "3fff::1": "reserved",
    "64:ff9b:1::a00:1": "reserved",
    "fec0::1": "reserved",
    "169.254.169.254": "a metadata service",
    "fd00:ec2::254": "a metadata service",
    "100.100.100.200": "a metadata service",
    "168.63.129.16": "a metadata service",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:169.254.169.254": "a metadata service",
    "64:ff9b::a9fe:a9fe": "a metadata service",
    "64:ff9b::10.0.0.1": "private",
    "2002:7f00:1::": "loopback",
    "2002:a9fe:a9fe::1": "a metadata service",
    "2001:0:7f00:1::": "loopback",
    "2001:0:808:808:0:0:80ff:fffe": "loopback",
    "::127.0.0.1": "reserved",
}

PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700::6810:84e5", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"]


def resolver(*addresses):
    """A DNS that gives every name these addresses."""
    return lambda host, port: list(addresses)


class TestFaultOf:
    @pytest.mark.parametrize(("address", "fault"), REFUSED.items())
    def test_an_address_that_is_not_public_has_a_fault(self, address, fault):
        """
        Whatever is not public is told by name, also when it hides inside another address.
        """
        assert fault == find_fault(ipaddress.ip_address(address))

    @pytest.mark.parametrize("address", PUBLIC)
    def test_a_public_address_has_none(self, address):
        """
        Ordinary public addresses are fine, also where a network translates IPv4 into IPv6.
        """
        assert "" == find_fault(ipaddress.ip_address(address))

    @given(st.ip_addresses(v=4), st.sampled_from(["::ffff:{}", "64:ff9b::{}"]))
    def test_an_embedded_address_is_judged_like_itself(self, inner, form):
        """
        Writing an IPv4 address inside an IPv6 one changes nothing about the verdict.
        """
        assert find_fault(inner) == find_fault(ipaddress.ip_address(form.format(inner)))

    @given(st.ip_addresses())
    def test_what_python_calls_not_global_is_never_let_through(self, address):
        """
        The guard is never more lenient than Python's own table of public addresses.
        """
        assert find_fault(address) or address.is_global or getattr(address, "ipv4_mapped", None)


class TestCanonicalHost:
    @pytest.mark.parametrize(
        ("host", "canonical"),
        [
            ("Example.ORG", "example.org"),
            ("example.org.", "example.org"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("\uff25xample.org", "example.org"),
            ("127.1", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("①②⑦.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("[0:0::1]", "::1"),
        ],
    )
    def test_a_host_has_one_form(self, host, canonical):
        """
        Case, dots, foreign letters and odd ways to write numbers end in one form.
        """
        assert canonical == normalize_host(host)

    @pytest.mark.parametrize(
        "host", ["", ".", "a..b", "a b", "%31.example", "1.2.3.4.5", "999.1.1.1", "::g", "a/b", "x" * 300]
    )
    def test_what_is_no_host_is_refused(self, host):
        """
        A host that is neither name nor address is an error.
        """
        with pytest.raises(ValueError, match=r".+"):
            normalize_host(host)

    @given(st.text(max_size=30))
    def test_the_form_is_stable(self, host):
        """
        The canonical form of a canonical form is itself.
        """
        try:
            once = normalize_host(host)
        except ValueError:
            return

        assert once == normalize_host(once)


class TestParsed:
    def test_a_url_is_taken_apart(self):
        """
        Scheme, canonical host, port and path with query come out.
        """
        target = parse_url("https://Hooks.Example.ORG./a/b?c=d")

        assert ("https", "hooks.example.org", 443, "/a/b?c=d") == (
            target.scheme,
            target.host,
            target.port,
            target.path,
        )

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "hooks.slack.com/services/x",
            "ftp://example.org/x",
            "file:///etc/passwd",
            "https:///x",
            "https://ann:s3cret@example.org/",
            "https://hooks.slack.com\\@example.org/",
            "https://example.org:port/x",
            "https://example.org:99999/x",
            "https://exa mple.org/",
            "https://example.org/\nX-Header: 1",
            "https://[::1/",
        ],
    )
    def test_what_is_no_web_address_is_a_settings_error(self, url):
        """
        A URL we cannot use is refused when it is set, by the name of its setting.
        """
        with pytest.raises(SettingsError, match=r"alerts\.channels\.ops must be a URL"):
            parse_url(url, setting="alerts.channels.ops")

    @pytest.mark.parametrize(
        "url", ["https://example.org/T0/B0/s3cret path", "https://u:s3cret@example.org/", "gopher://x/s3cret"]
    )
    def test_the_error_keeps_the_secret(self, url):
        """
        The message of a bad URL shows nothing of its path or password.
        """
        with pytest.raises(SettingsError) as caught:
            parse_url(url)

        assert "s3cret" not in str(caught.value)

    def test_a_target_shows_its_host_only(self):
        """
        Printing a target does not print the path, which is as good as a password.
        """
        assert "WebhookURL(https://hooks.slack.com)" == repr(
            parse_url("https://hooks.slack.com/services/T0/B0/s3cret")
        )

    def test_a_path_stays_as_it_was(self):
        """
        Escapes in a path are neither undone nor doubled, and what is not ASCII is escaped.
        """
        assert "/a%2Fb/%C3%BC?q=1%202" == parse_url("https://example.org/a%2Fb/ü?q=1%202").path

    def test_a_host_is_empty_when_there_is_none(self):
        """
        Asking for the host of something that is no URL gives an empty text.
        """
        assert "" == get_host("not a url")


class TestAddressGuard:
    def test_all_addresses_of_a_public_host_are_given(self):
        """
        A host with public addresses only may be connected to at any of them.
        """
        assert PUBLIC == AddressGuard(resolve=resolver(*PUBLIC)).resolve("example.org", 443)

    def test_one_private_address_refuses_the_host(self):
        """
        A host with one public and one private address is refused, whichever comes first.
        """
        guard = AddressGuard(resolve=resolver("8.8.8.8", "10.0.0.1"))

        with pytest.raises(AddressRefusedError, match=r"10\.0\.0\.1 is private"):
            guard.resolve("example.org", 443)

    def test_the_refusal_says_how_to_allow_it(self):
        """
        The error names host, address, fault and the setting that allows it.
        """
        guard = AddressGuard(resolve=resolver("169.254.169.254"))

        with pytest.raises(AddressRefusedError) as caught:
            guard.resolve("metadata.google.internal", 443)

        assert (
            "No alert is sent to metadata.google.internal: 169.254.169.254 is a metadata service. "
            "If it is meant to go there, add 'metadata.google.internal' to the alerts' allow_hosts."
        ) == str(caught.value)

    @pytest.mark.parametrize(
        "url", ["https://127.1/", "https://0x7f.1/", "https://2130706433/", "https://[::1]/"]
    )
    def test_a_written_address_is_refused_without_asking(self, url):
        """
        Addresses in any spelling are refused when they are set, without a look-up.
        """
        with pytest.raises(AddressRefusedError, match="loopback"):
            AddressGuard(resolve=resolver()).check_url(parse_url(url))

    def test_http_is_refused(self):
        """
        An alert is not sent unencrypted.
        """
        with pytest.raises(AddressRefusedError, match="unencrypted"):
            AddressGuard().check_url(parse_url("http://example.org/hook"))

    def test_an_allowed_host_may_be_private_and_plain(self):
        """
        A host allowed by name may be spoken to over http at a private address.
        """
        guard = AddressGuard(["Alerts.Internal."], resolve=resolver("10.0.0.1"))
        guard.check_url(parse_url("http://alerts.internal/hook"))

        assert ["10.0.0.1"] == guard.resolve("alerts.internal", 80)

    @pytest.mark.parametrize("host", ["x.alerts.internal", "alerts.internal.example.org", "alerts-internal"])
    def test_allowing_a_host_allows_no_other(self, host):
        """
        An allowed name is compared as a whole.
        """
        guard = AddressGuard(["alerts.internal"], resolve=resolver("10.0.0.1"))

        with pytest.raises(AddressRefusedError):
            guard.resolve(host, 443)

    @pytest.mark.parametrize("answer", ["", "not an address", "8.8.8.8.8"])
    def test_an_answer_that_is_no_address_is_refused(self, answer):
        """
        A resolver that answers nonsense is not trusted.
        """
        with pytest.raises(AddressRefusedError, match="not an address"):
            AddressGuard(resolve=resolver(answer)).resolve("example.org", 443)

    def test_a_host_without_addresses_is_not_found(self):
        """
        A name that resolves to nothing is an ordinary network error, worth another try.
        """
        with pytest.raises(OSError, match="has no address"):
            AddressGuard(resolve=resolver()).resolve("example.org", 443)

    @pytest.mark.parametrize("host", ["https://example.org", "example.org:8080", "example.org/x", ""])
    def test_an_allowed_host_must_be_a_host(self, host):
        """
        What cannot be a host in the allow list is named, since it would never match.
        """
        with pytest.raises(SettingsError, match=r"alerts\.allow_hosts must hold names or addresses"):
            AddressGuard([host])
