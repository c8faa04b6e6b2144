import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhelm.engine.capture import PAYLOAD_MODES, Capture
from steadyhelm.events import TOOL_CALL
from steadyhelm.fingerprints import fingerprint
from steadyhelm.loops.steps import read_step
from steadyhelm.redaction import Redactor
from steadyhelm.sink import RecordedEvent

TOKEN = "ghp_" + "aB3dE5gH7jK9mN2pQ4sT6vW8xY1zA0cD"


def captured(payloads="redacted", **fields):
    capture = Capture(Redactor(), payloads)
    fields = {
        "agent_id": "a",
        "run_id": "r",
        "action_type": TOOL_CALL,
        "action_name": "search",
        "timestamp": 1.0,
        "event_id": "r.0",
        "seq": 0,
        "input_data": {"q": "flights"},
        "output_data": {"text": "three found"},
    } | fields
    payload = [fields.pop(name, None) for name in ("input_data", "output_data", "metadata", "error")]
    return capture.build(capture.encode(*payload), **fields)


def kept(payloads, **fields):
    capture = Capture(Redactor(), payloads)
    return capture.strip(captured(payloads, **fields))


class TestCapture:
    def test_the_payload_is_canonical_json(self):
        """
        What is kept is the canonical JSON of arguments, result and metadata.
        """
        recorded = captured(metadata={"b": 1, "a": 2})

        assert (b'{"q":"flights"}', b'{"text":"three found"}', b'{"a":2,"b":1}') == (
            recorded.input_json,
            recorded.output_json,
            recorded.metadata_json,
        )

    def test_nothing_is_kept_as_nothing(self):
        """
        Without data there is no payload.
        """
        recorded = captured(input_data={}, output_data=None, metadata={})

        assert (None, None, None) == (recorded.input_json, recorded.output_json, recorded.metadata_json)

    def test_the_fingerprint_is_taken_on_the_way(self):
        """
        Equal calls have equal hashes; another result shows in the second hash alone.
        """
        first, same, other = captured(), captured(), captured(output_data="none found")

        assert fingerprint(first.event) == fingerprint(same.event)
        assert first.event.call_hash == other.event.call_hash
        assert first.event.result_hash != other.event.result_hash

    def test_an_error_is_the_result(self):
        """
        Two failures are the same when their errors are, whatever else came back.
        """
        one = captured(error="no such file", output_data=None)
        other = captured(error="no such file", output_data={"text": "partial"})

        assert one.event.result_hash == other.event.result_hash

    @given(st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists, max_leaves=10))
    def test_any_argument_is_taken(self, value):
        """
        Whatever an argument is, there is an event and JSON that can be kept.
        """
        recorded = captured(input_data=value, output_data=[value], metadata={"m": value})

        assert all(
            msgspec.json.decode(payload) is not Ellipsis
            for payload in (recorded.input_json, recorded.output_json, recorded.metadata_json)
            if payload
        )


class TestSecrets:
    @pytest.mark.parametrize("place", ["input_data", "output_data", "metadata"])
    def test_a_secret_is_gone_wherever_it_was(self, place):
        """
        A secret in arguments, result or metadata is in neither the event nor the payload.
        """
        recorded = captured(**{place: {"note": f"use {TOKEN}"}})

        assert TOKEN not in str(recorded)

    def test_a_secret_in_an_error_is_gone(self):
        """
        An error message is redacted like everything else.
        """
        assert "401: [redacted: GitHub token]" == captured(error=f"401: {TOKEN}").event.error

    def test_a_goal_is_redacted(self):
        """
        So is a goal, and a run's metadata.
        """
        capture = Capture(Redactor())

        assert "use [redacted: GitHub token]" == capture.text(f"use {TOKEN}")
        assert {"key": ["[redacted: GitHub token]"]} == capture.details({"key": (TOKEN,)})

    def test_full_keeps_everything(self):
        """
        With payloads "full" everything is kept as it came.
        """
        assert TOKEN.encode() in captured("full", input_data={"note": TOKEN}).input_json
        assert f"use {TOKEN}" == Capture(Redactor(), "full").text(f"use {TOKEN}")

    def test_the_same_secret_is_still_the_same_call(self):
        """
        Redacted calls are compared after redaction.
        """
        first, second = (captured(input_data={"note": TOKEN}) for _ in range(2))

        assert first.event.call_hash == second.event.call_hash

    def test_no_data_has_no_plain_form(self):
        """
        Empty metadata of a run is none.
        """
        assert Capture(Redactor()).details({}) is None


class TestKept:
    @pytest.mark.parametrize(
        ("payloads", "has_text", "has_hashes"),
        [("none", False, False), ("hashes", False, True), ("redacted", True, True), ("full", True, True)],
    )
    def test_what_each_mode_keeps(self, payloads, has_text, has_hashes):
        """
        The mode none keeps neither words nor hashes, hashes keeps hashes, redacted and full keep both.
        """
        recorded = kept(payloads, metadata={"m": 1}, error="it failed: because")

        assert has_text == ("flights" in str(recorded))
        assert has_text == ("because" in str(recorded))
        assert has_hashes == bool(recorded.event.call_hash and recorded.event.result_hash)

    @pytest.mark.parametrize("payloads", PAYLOAD_MODES)
    def test_what_was_done_is_always_kept(self, payloads):
        """
        Name, type, tokens and whether it failed are kept in every mode.
        """
        event = kept(payloads, token_count=7, error="it failed").event

        assert ("search", TOOL_CALL, 7, True) == (
            event.action_name,
            event.action_type,
            event.token_count,
            event.error is not None,
        )

    @pytest.mark.parametrize("payloads", PAYLOAD_MODES)
    def test_detectors_see_the_words_in_every_mode(self, payloads):
        """
        What is judged does not depend on what is kept.
        """
        assert "three found" == captured(payloads).event.text

    def test_what_was_asked_is_what_is_kept(self):
        """
        Patterns read the arguments as they were handed over, whatever the agent does to its object since.
        """
        arguments = {"q": "flights"}
        recorded = captured(input_data=arguments)
        arguments["q"] = "hotels"

        assert recorded.input_json == read_step(recorded.event).arguments


class TestRecordedEvent:
    def test_of_an_event(self):
        """
        An event can be recorded as it is.
        """
        event = captured().event

        assert (event, b'{"q":"flights"}', None) == (
            (recorded := RecordedEvent.of(event)).event,
            recorded.input_json,
            recorded.metadata_json,
        )
