import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steadyhelm.findings import Severity
from steadyhelm.sinks.alerts.channel import clean_text, fit_text
from steadyhelm.sinks.alerts.discord import Discord
from steadyhelm.sinks.alerts.slack import Slack
from steadyhelm.sinks.alerts.webhook import Webhook

ANY_TEXT = st.text(st.characters(codec=None), max_size=200) | st.sampled_from(
    [
        "<!channel>",
        "<@U012AB3CD>",
        "@everyone",
        "@here",
        "**x** [y](http://z)",
        "\x1b[31m\u202e",
        "x" * 20_000,
    ]
)

same_alert = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def saying(alert, **changes):
    """The alert with another incident in it."""
    return msgspec.structs.replace(alert, incident=msgspec.structs.replace(alert.incident, **changes))


def texts(value):
    """Every text in a payload."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)


class TestChoice:
    @pytest.mark.parametrize(
        ("url", "names"),
        [
            ("https://hooks.slack.com/services/T0/B0/x", ["slack"]),
            ("https://HOOKS.slack.com./services/T0/B0/x", ["slack"]),
            ("https://discord.com/api/webhooks/1/x", ["discord"]),
            ("https://ptb.discord.com/api/webhooks/1/x", ["discord"]),
            ("https://discordapp.com/api/webhooks/1/x", ["discord"]),
            ("https://example.org/hooks.slack.com/discord.com", []),
            ("https://hooks.slack.com.example.org/x", []),
            ("https://evildiscord.com/x", []),
            ("https://example.org/?u=https://discord.com", []),
            ("not a url", []),
        ],
    )
    def test_the_host_decides(self, url, names):
        """
        A channel is chosen by the host of its URL, never by words elsewhere in it.
        """
        assert names == [kind.name for kind in (Slack, Discord) if kind.matches(url)]

    def test_any_web_address_will_do_for_the_general_kind(self):
        """
        The general webhook takes what is a web address, and nothing else.
        """
        assert [True, False] == [Webhook.matches(url) for url in ("https://example.org/x", "example.org")]


class TestCleaned:
    @pytest.mark.parametrize(
        ("text", "clean"),
        [
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\x1b]0;title\x07shown", "shown"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x9b31mred", "red"),
            ("a\x00b\x08c\x7f", "abc"),
            ("\u202eevil\u202c \u2066x\u2069", "evil x"),
            ("a\u200bb\ufeffc\U000e0041", "abc"),
            ("a\tb\r\nc\rd", "a b\ncd"),
            ("a\u2028b", "a\nb"),
            ("half \ud800 pair", "half  pair"),
            ("👩\u200d💻 naïve 日本", "👩\u200d💻 naïve 日本"),
        ],
    )
    def test_only_what_is_visible_stays(self, text, clean):
        """
        Terminal sequences, control, direction and invisible characters go; everything visible stays.
        """
        assert clean == clean_text(text)

    @given(st.text(st.characters(codec=None)), st.integers(1, 100))
    def test_a_text_fits(self, text, limit):
        """
        Whatever the text, it is never longer than asked, escapes included.
        """
        assert limit >= len(
            fit_text(text, limit, lambda character: "&amp;" if character == "&" else character)
        )

    def test_an_escape_is_never_cut_in_half(self):
        """
        A text is cut between characters, not inside what stands for one.
        """
        assert "&amp;…" == fit_text("&&&", 10, lambda character: "&amp;")


class TestSlack:
    def test_an_alert(self, alert):
        """
        An alert is one attachment in the colour of its severity, with its words in blocks.
        """
        payload = Slack().build_payload(msgspec.structs.replace(alert, also=2))

        [attachment] = payload["attachments"]
        kinds = [block["type"] for block in attachment["blocks"]]
        assert ("#e8710a", ["header", "section", "section", "context"]) == (attachment["color"], kinds)
        assert "HIGH: action_loop in researcher" == payload["text"]
        assert alert.incident.message == attachment["blocks"][1]["text"]["text"]
        assert "Also\n2 more since the last alert" == attachment["blocks"][2]["fields"][-1]["text"]

    @pytest.mark.parametrize(
        ("hostile", "shown"),
        [
            ("<!channel> look", "&lt;!channel&gt; look"),
            ("<@U012AB3CD>", "&lt;@U012AB3CD&gt;"),
            ("<https://evil.example|click> & go", "&lt;https://evil.example|click&gt; &amp; go"),
            ("@channel @here", "@\u200bchannel @\u200bhere"),
        ],
    )
    def test_nobody_is_mentioned(self, alert, hostile, shown):
        """
        What looks like a mention or a link is shown as text.
        """
        blocks = Slack().build_payload(saying(alert, message=hostile))["attachments"][0]["blocks"]

        assert {"type": "plain_text", "text": shown, "emoji": False} == blocks[1]["text"]

    @same_alert
    @given(ANY_TEXT, ANY_TEXT, ANY_TEXT, st.sampled_from(Severity))
    def test_any_text_makes_a_message_slack_takes(self, alert, message, agent_id, action, severity):
        """
        Whatever an agent writes, the message is valid JSON inside Slack's limits and calls nobody.
        """
        hostile = saying(
            alert, message=message, agent_id=agent_id, suggested_action=action, severity=severity
        )
        payload = Slack().build_payload(hostile)
        blocks = payload["attachments"][0]["blocks"]

        assert json.loads(msgspec.json.encode(payload)) == payload
        assert 150 >= len(blocks[0]["text"]["text"])
        assert 3000 >= len(blocks[1]["text"]["text"]) > 0
        assert all(2000 >= len(field["text"]) > 0 for field in blocks[2]["fields"])
        assert not any("<" in text or ">" in text or "\x1b" in text for text in texts(payload))


class TestDiscord:
    def test_an_alert(self, alert):
        """
        An alert is one embed with its colour as a number, and nobody may be mentioned by it.
        """
        payload = Discord().build_payload(msgspec.structs.replace(alert, reason="still"))

        [embed] = payload["embeds"]
        assert ({"parse": []}, 0xE8710A) == (payload["allowed_mentions"], embed["color"])
        assert "Still drifting, HIGH\\: action\\_loop in researcher" == embed["title"]
        assert "2023-11-14T22:13:30+00:00" == embed["timestamp"]

    @pytest.mark.parametrize(
        ("hostile", "shown"),
        [
            ("@everyone @here", "\\@\u200beveryone \\@\u200bhere"),
            ("<@123> <@&456>", "\\<\\@123\\> \\<\\@&456\\>"),
            ("**b** `c` ~~d~~ ||e||", "\\*\\*b\\*\\* \\`c\\` \\~\\~d\\~\\~ \\|\\|e\\|\\|"),
            ("[click](https://evil.example)", "\\[click\\]\\(https\\://evil.example\\)"),
            ("\\@everyone", "\\\\\\@\u200beveryone"),
        ],
    )
    def test_nothing_is_formatted(self, alert, hostile, shown):
        """
        Mentions, markdown and links are shown as they were written.
        """
        assert shown == Discord().build_payload(saying(alert, message=hostile))["embeds"][0]["description"]

    def test_a_time_no_calendar_has_is_left_out(self, alert):
        """
        An event time far outside the calendar does not stop an alert.
        """
        assert "timestamp" not in Discord().build_payload(saying(alert, last_at=1e300))["embeds"][0]

    @same_alert
    @given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
    def test_any_text_makes_a_message_discord_takes(self, alert, message, agent_id, action):
        """
        Whatever an agent writes, the embed is valid JSON inside Discord's limits.
        """
        hostile = saying(alert, message=message, agent_id=agent_id, run_id=message, suggested_action=action)
        payload = Discord().build_payload(hostile)
        embed = payload["embeds"][0]
        parts = [embed["title"], embed["description"], embed["footer"]["text"]]
        parts += [text for field in embed["fields"] for text in (field["name"], field["value"])]

        assert json.loads(msgspec.json.encode(payload)) == payload
        assert 6000 >= sum(map(len, parts))
        assert 256 >= len(embed["title"])
        assert all(1024 >= len(field["value"]) > 0 for field in embed["fields"])


class TestWebhook:
    def test_an_alert(self, alert):
        """
        The general payload holds source, event, incident, reason and delivery id.
        """
        payload = Webhook().build_payload(msgspec.structs.replace(alert, channel="ops"))

        assert {"source", "event", "incident", "reason", "also", "delivery_id"} == payload.keys()
        assert ("steadyhelm", "opened", "a1-ops") == (
            payload["source"],
            payload["reason"],
            payload["delivery_id"],
        )
        assert ("action_loop", "i1") == (payload["event"]["detector"], payload["incident"]["incident_id"])

    @same_alert
    @given(ANY_TEXT, st.lists(st.text(max_size=5), max_size=300))
    def test_any_text_makes_json(self, alert, message, event_ids):
        """
        Whatever an agent writes, the payload is valid JSON of a bounded size without control characters.
        """
        payload = Webhook().build_payload(saying(alert, message=message, event_ids=tuple(event_ids)))

        assert json.loads(msgspec.json.encode(payload)) == payload
        assert all(len(text) <= 4000 and "\x1b" not in text for text in texts(payload))
        assert 100 >= len(payload["incident"]["event_ids"])
