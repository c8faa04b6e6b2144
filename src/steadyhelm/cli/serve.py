"""`steadyhelm serve`: the page and its API, over the database of the settings."""

import html
import os
import time
import webbrowser
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from steadyhelm.cli.context import GlobalOptions
from steadyhelm.errors import SettingsError
from steadyhelm.reports.terminal import safe, say

if TYPE_CHECKING:
    import socket

    from steadyhelm.server.access import Access
    from steadyhelm.server.app import Server
    from steadyhelm.server.records.settings import SettingValue, Source
    from steadyhelm.settings import LoadedSettings
    from steadyhelm.stores.sql_store import SQLStore

_DEFAULT_PORT: Final = 7433
_SERVER_EXTRA: Final = (
    "`steadyhelm serve` needs Starlette and uvicorn. Type: pip install 'steadyhelm[server]'"
)


def serve(
    context: typer.Context,
    database: Annotated[
        str | None, typer.Option("--db", metavar="FILE|URL", help="The database to show.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 lets the system choose one.")
    ] = _DEFAULT_PORT,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser, signed in.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Show a demo: a mixed past, and an agent at work.")
    ] = False,
    certificate: Annotated[
        Path | None, typer.Option("--tls-cert", help="A certificate file, to serve over TLS.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--tls-key", help="The key of the certificate.")] = None,
) -> None:
    """Serve a page that shows what agents do while they do it.

    Needs the extra `server`. To see the page, a browser needs the token in Steadyhelm's folder.
    """
    shared: GlobalOptions = context.obj
    try:
        from steadyhelm.server import running
    except ImportError as exc:
        raise SettingsError(_SERVER_EXTRA) from exc
    if (certificate is None) != (key is None):
        raise typer.BadParameter("--tls-cert and --tls-key belong together.")
    if demo:
        from steadyhelm.cli.demo import prepare_database

        database = prepare_database(database or shared.database)
    if database is not None:
        shared = shared._replace(database=database)
    loaded = shared.load()
    has_tls = certificate is not None
    running.require_safe_address(host, has_tls=has_tls, trusted_proxy=loaded.settings.server_trusted_proxy)
    listener = running.bind(host, port)
    with closing(listener):
        _run(loaded, listener, host=host, open_page=open_page, is_demo=demo, certificate=certificate, key=key)


def _run(
    loaded: "LoadedSettings",
    listener: "socket.socket",
    *,
    host: str,
    open_page: bool,
    is_demo: bool,
    certificate: Path | None,
    key: Path | None,
) -> None:
    from contextlib import ExitStack

    from steadyhelm.components import open_store, store_pending
    from steadyhelm.server import running
    from steadyhelm.server.access import Access, read_token
    from steadyhelm.settings import home

    settings = loaded.settings
    with ExitStack() as stack:
        store = stack.enter_context(closing(open_store(settings)))
        store_pending(settings)
        if is_demo:
            from steadyhelm.cli.demo_past import LiveDemo, record_past

            record_past(settings.database.where)
            stack.enter_context(LiveDemo(settings.database.where))
        access = Access(read_token(home()), store)
        is_secure = certificate is not None or bool(settings.server_trusted_proxy)
        server = _make_server(loaded, store, access, host=host, is_secure=is_secure, is_demo=is_demo)
        shown = f"[{host}]" if ":" in host else host
        url = f"{'https' if certificate else 'http'}://{shown}:{listener.getsockname()[1]}/"

        def announce() -> None:
            say(f"Steadyhelm shows {safe(settings.database.to_absolute())} at {url}")
            say(f"Sign in with the token in {safe(home() / 'server.token')}. Stop with Ctrl+C.")
            if open_page:
                webbrowser.open(_write_opener(home(), f"{url}#code={access.make_code()}").as_uri())

        running.run(server, listener, certificate=certificate, key=key, on_start=announce)


def _make_server(
    loaded: "LoadedSettings",
    store: "SQLStore",
    access: "Access",
    *,
    host: str,
    is_secure: bool,
    is_demo: bool,
) -> "Server":
    from steadyhelm.cli import alert_deliveries
    from steadyhelm.server.agent_views import AgentViews
    from steadyhelm.server.app import Server
    from steadyhelm.server.context import ServerContext
    from steadyhelm.server.page_files import digest_page, read_page
    from steadyhelm.settings import find_settings_file

    page, file = read_page(), find_settings_file()
    context = ServerContext(
        store=store,
        views=AgentViews(store),
        settings=loaded.settings,
        access=access,
        list_settings=lambda: _list_settings(loaded),
        send_test=lambda: alert_deliveries.send_one(loaded.settings),
        settings_file="" if file is None else str(file),
        page_digest=digest_page(page),
        is_demo=is_demo,
        started_at=time.time(),
    )
    return Server(context, page, host=host, is_secure=is_secure)


def _write_opener(folder: Path, address: str) -> Path:
    """Write a page that only this user can read and that leads to an address, and return its path.

    A browser's arguments can be read by every user of the machine: the code must not be one of them.
    """
    path = folder / "open.html"
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address)}">')
    return path


def _list_settings(loaded: "LoadedSettings") -> Iterator["SettingValue"]:
    from steadyhelm.cli.config import format_value, list_values
    from steadyhelm.server.records.settings import SettingValue
    from steadyhelm.setting_table import SETTINGS
    from steadyhelm.settings import Settings

    about = {setting.name: setting.about for setting in SETTINGS}
    usual = Settings()
    attributes = {setting.name: setting.attribute for setting in SETTINGS}
    for value in list_values(loaded):
        attribute = attributes.get(value.name)
        yield SettingValue(
            name=value.name,
            value=format_value(value.value),
            source=_name_source(value.origin),
            origin=value.origin,
            default="" if attribute is None else format_value(getattr(usual, attribute)),
            about=about.get(value.name, ""),
        )


def _name_source(origin: str) -> "Source":
    if origin.startswith("environment"):
        return "environment"
    if origin.startswith("file"):
        return "file"
    return "argument" if origin == "argument" else "default"
