"""Settings and health."""

from playwright.sync_api import expect


def test_values_say_where_they_come_from(visit):
    """
    Each setting has its value, its source and what it is for; "Changed" shows those that differ.
    """
    page = visit("/settings")
    values = page.get_by_role("table", name="Settings")

    page.get_by_role("button", name="Show all").click()
    expect(values.get_by_role("row").filter(has_text="mode")).not_to_have_count(0)
    expect(values.get_by_text("default", exact=True).first).to_be_visible()
    page.get_by_role("button", name="Changed").click()
    assert "values=changed" in page.url


def test_health_counts_what_was_stored_and_lost(visit):
    """
    The figures name what is stored, lost and not checked.
    """
    page = visit("/settings")

    expect(page.get_by_text("Events stored")).to_be_visible()
    expect(page.get_by_role("heading", name="Not checked, by reason")).to_be_visible()
    expect(page.get_by_text("Nothing was lost.")).to_be_visible()


def test_a_key_is_shown_once_and_can_be_revoked(visit, changing_server):
    """
    A new key is shown until it is kept; revoking asks once, by name.
    """
    page = visit("/settings?section=keys", changing_server)
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill("on-call")
    page.get_by_role("radio", name="operate").click()
    page.get_by_role("button", name="Make key").click()
    secret = page.locator(".secret").inner_text()
    page.get_by_role("button", name="I have kept it").click()
    expect(page.get_by_text(secret)).to_have_count(0)
    expect(page.locator(".key-row")).to_contain_text("operate")
    page.get_by_role("button", name="Revoke on-call…").click()
    page.get_by_role("button", name="Revoke on-call", exact=True).click()

    expect(page.locator(".key-row")).to_have_count(0)
    expect(page.locator("#audit")).to_contain_text("on-call")


def test_the_redaction_tester_names_the_rule(visit):
    """
    A secret is taken out, and its rule is named; nothing of the secret comes back.
    """
    page = visit("/settings?section=redaction")
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    page.get_by_label("Text").fill(f"git clone https://{secret}@github.example")

    stored = page.locator(".stored")
    expect(stored).to_contain_text("git clone")
    expect(stored).not_to_contain_text(secret)
    expect(page.locator(".tester-rules")).to_contain_text("Taken out")
