"""What is special to litellm: its router, and the clients it calls."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched

import litellm
import pytest
from fake_endpoints import FakeEndpoint
from watched import runs_of, story

import steadyhelm
from steadyhelm import SettingsError


@pytest.fixture
def endpoint():
    """A model on loopback that says "done"."""
    with FakeEndpoint() as endpoint:
        yield endpoint


def router_of(endpoint):
    """A router with one deployment."""
    where = {"model": "openai/scripted", "api_base": f"{endpoint.url}/v1", "api_key": "none"}
    return litellm.Router([{"model_name": "scripted", "litellm_params": where}], num_retries=0)


def test_a_router_is_watched_by_install(endpoint, monitors):
    """
    A call of a router is one model call, though it passes through litellm's function and OpenAI's client.
    """
    monitor = steadyhelm.install(monitor=monitors())
    try:
        router_of(endpoint).completion("scripted", [{"role": "user", "content": "find it"}])
    finally:
        steadyhelm.uninstall()

    assert 1 == len(runs_of(monitor))
    assert ["user: find it", "model: done"] == story(monitor)


def test_a_router_cannot_be_wrapped(endpoint, monitors):
    """
    A router, whose calls no wrapper sees, is refused with what to do instead.
    """
    with pytest.raises(SettingsError, match=r"wrap\(\) got a Router.*steadyhelm\.install\(\)"):
        monitors().wrap(router_of(endpoint))
