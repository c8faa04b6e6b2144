import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.sinks.alerts.signing import compute_signature, verify_signature

HEADERS = {
    "Steadyhelm-Delivery": "d1-ops",
    "Steadyhelm-Timestamp": "1700000000",
    "Steadyhelm-Signature": compute_signature("s3cret", "d1-ops", 1700000000, b"{}"),
}


class TestVerified:
    def test_what_we_signed_is_genuine(self):
        """
        An alert signed with the shared secret is recognised, whatever the case of its header names.
        """
        shouted = {name.upper(): value for name, value in HEADERS.items()}

        assert verify_signature("s3cret", shouted, b"{}", now=1700000010.0)

    @pytest.mark.parametrize(
        "changes",
        [
            {"Steadyhelm-Delivery": "d2-ops"},
            {"Steadyhelm-Timestamp": "1700000001"},
            {"Steadyhelm-Timestamp": "soon"},
            {"Steadyhelm-Timestamp": "²"},
            {"Steadyhelm-Timestamp": ""},
            {"Steadyhelm-Signature": "v1="},
            {"Steadyhelm-Signature": "naïve"},
        ],
    )
    def test_a_changed_header_is_noticed(self, changes):
        """
        Id, time and signature all count.
        """
        assert not verify_signature("s3cret", HEADERS | changes, b"{}", now=1700000010.0)

    def test_another_secret_is_noticed(self):
        """
        Somebody without the secret cannot sign.
        """
        assert not verify_signature("guess", HEADERS, b"{}", now=1700000010.0)

    def test_nothing_at_all_is_not_genuine(self):
        """
        A request without our headers is not ours.
        """
        assert not verify_signature("s3cret", {}, b"{}", now=1700000010.0)

    @pytest.mark.parametrize("now", [1700000301.0, 1699999699.0])
    def test_an_old_alert_is_a_replay(self, now):
        """
        Outside five minutes either way a genuine alert is refused.
        """
        assert not verify_signature("s3cret", HEADERS, b"{}", now=now)

    @given(st.binary(max_size=50))
    def test_a_changed_body_is_noticed(self, body):
        """
        Only the body that was signed is genuine.
        """
        assert (body == b"{}") == verify_signature("s3cret", HEADERS, body, now=1700000010.0)
