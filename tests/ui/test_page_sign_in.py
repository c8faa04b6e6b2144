"""Who may see the page, and how a tab signs in."""

import html
import re
import time

import pytest
from conftest import start_server
from playwright.sync_api import expect


@pytest.fixture
def signed_out(open_context, server, problems):
    problems.allow("401")  # The browser itself logs an answer that refuses.
    return open_context(server, signed_in=False).new_page()


def test_a_token_leads_to_the_page_that_was_asked_for(signed_out, server):
    """
    Signed out, every address shows the sign-in card, and signing in shows what the address names.
    """
    signed_out.goto(f"{server.url}/#/runs?state=ended")
    signed_out.get_by_label("Token").fill(server.token)
    signed_out.get_by_role("button", name="Sign in").click()

    expect(signed_out.get_by_role("heading", name="Runs")).to_be_visible()
    assert signed_out.url.endswith("/#/runs?state=ended")


def test_a_wrong_token_is_refused(signed_out, server):
    """
    A wrong token leaves the card with a sentence, and the field empty.
    """
    signed_out.goto(f"{server.url}/#/")
    signed_out.get_by_label("Token").fill("wrong")
    signed_out.get_by_role("button", name="Sign in").click()

    expect(signed_out.get_by_role("alert")).not_to_be_empty()
    expect(signed_out.get_by_label("Token")).to_have_value("")


def test_a_new_tab_is_signed_in_by_another(open_context, server):
    """
    A tab without the header secret gets it from another tab of the same browser.
    """
    context = open_context(server)
    first = context.new_page()
    first.goto(f"{server.url}/#/")
    expect(first.get_by_role("heading", name="Overview")).to_be_visible()
    second = context.new_page()
    second.add_init_script("sessionStorage.clear(); sessionStorage.setItem('test.signed-in', '1')")
    second.goto(f"{server.url}/#/runs")

    expect(second.get_by_role("heading", name="Runs")).to_be_visible()


def test_signing_out_ends_the_session_in_every_tab(own_server, open_context, problems):
    """
    After "Sign out" neither tab shows anything, and the cookie no longer opens anything.
    """
    problems.allow("401")
    context = open_context(own_server)
    first, second = context.new_page(), context.new_page()
    for page in (first, second):
        page.goto(f"{own_server.url}/#/settings")
        expect(page.get_by_role("heading", name="Settings and health")).to_be_visible()
    first.get_by_role("button", name="Sign out").click()

    for page in (first, second):
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    second.reload()
    expect(second.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.fixture
def opened(past, tmp_path):
    """A server that was started with `--open`, and the address that a browser is led to."""
    served = start_server(tmp_path / "home", past[0], "--open")
    opener = tmp_path / "home" / "open.html"
    while not (opener.exists() and opener.read_text().endswith(">")):
        assert served.process.poll() is None
        time.sleep(0.02)
    (address,) = re.findall('url=(.+?)"', opener.read_text())
    yield served, html.unescape(address)
    served.stop()


def test_the_link_of_open_signs_in_once(opened, open_context, problems):
    """
    The code is taken out of the address; used again, it leads to the sign-in card with a sentence.
    """
    problems.allow("401")
    served, address = opened
    page = open_context(served, signed_in=False).new_page()
    page.goto(address)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    assert "#code=" in address
    assert "code" not in page.url
    again = open_context(served, signed_in=False).new_page()
    again.goto(address)

    expect(again.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(again.get_by_text("The link was used before or is too old.")).to_be_visible()
