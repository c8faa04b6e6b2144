from pathlib import Path

import pytest

from steadyhelm.errors import SettingsError
from steadyhelm.settings import load
from steadyhelm.stores.locations import DatabaseLocation, hide_password


class TestPasswords:
    @pytest.mark.parametrize(
        "address",
        [
            "postgresql://worker:s3cret@db.example:5432/agents",
            "postgres://worker:s3cret@db.example/agents?sslmode=require",
            "POSTGRESQL://worker:s3c@s3cret/s3cret?s3cret@db.example/agents",
            "postgresql://worker@/agents?host=/run/db&password=s3cret",
            "postgresql://worker@/agents?PASSWORD=s3cret&host=/run/db&sslpassword=s3cret",
        ],
    )
    def test_they_are_not_printed(self, address):
        """
        A location as text has no password, wherever it stands in the address.
        """
        location = DatabaseLocation(address)

        assert "s3cret" not in str(location)
        assert "worker@" in str(location)
        assert "agents" in str(location)

    def test_the_rest_stays(self):
        """
        Only the password is left out.
        """
        address = "postgresql://worker:x@db.example:5432/agents?password=x&sslmode=require"

        assert "postgresql://worker@db.example:5432/agents?sslmode=require" == hide_password(address)


class TestJournalPath:
    def test_of_a_file(self, tmp_path, monkeypatch):
        """
        Records for a file wait beside it.
        """
        monkeypatch.chdir(tmp_path)

        assert tmp_path / "runs.db" == DatabaseLocation("runs.db").journal_path

    def test_of_a_server(self, tmp_path, monkeypatch):
        """
        Records for a server wait in our own folder, one name for each database, whatever the password is.
        """
        monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path))
        addresses = ["postgresql://a:old@h/x", "postgresql://a:new@h/x", "postgresql://a:old@h/y"]
        paths = [DatabaseLocation(address).journal_path for address in addresses]

        assert paths[0] == paths[1] != paths[2]
        assert {tmp_path / "journals"} == {path.parent for path in paths}
        assert "old" not in str(paths[0])


class TestAddresses:
    def test_a_mangled_one_is_refused(self):
        """
        An address that went through `Path` has lost a slash: the message says so, without the password.
        """
        mangled = str(Path("postgresql://worker:s3cret@db.example/agents"))

        with pytest.raises(
            SettingsError, match=r"as text, not as a path: 'postgresql:/worker@db\.example"
        ) as raised:
            load({"db": mangled}, environment={})

        assert "s3cret" not in str(raised.value)

    @pytest.mark.parametrize(
        "address",
        [
            "mysql://worker:s3cret@db.example/agents",
            "postgresql+psycopg://worker:s3cret@db.example/agents",
            "sqlite:////var/agents.db",
            str(Path("mysql://worker:s3cret@db.example/agents")),
            "a\0b",
        ],
    )
    def test_one_of_something_else_is_refused(self, address):
        """
        The address of another kind of database is no path: no folder is made that is named by a password.
        Nor is what holds a null character.
        """
        with pytest.raises(
            SettingsError, match="path of a SQLite file, or an address that begins with"
        ) as raised:
            load({"db": address}, environment={})

        assert "s3cret" not in str(raised.value)

    @pytest.mark.parametrize("path", ["runs.db", "a:b.db", "./mysql:/runs.db", "C:/runs.db"])
    def test_paths_that_look_a_little_like_one(self, path):
        """
        What begins like no address is a path.
        """
        assert not load({"db": path}, environment={}).settings.database.is_server

    def test_what_needs_a_file_says_so(self):
        """
        What works with a file only names the address, without its password.
        """
        with pytest.raises(
            SettingsError, match=r"SQLite file only, not with postgresql://worker@db\.example/x"
        ):
            _ = DatabaseLocation("postgresql://worker:s3cret@db.example/x").path

    def test_a_relative_file(self, tmp_path, monkeypatch):
        """
        A path becomes absolute; an address stays as it is.
        """
        monkeypatch.chdir(tmp_path)

        assert str(tmp_path / "a.db") == DatabaseLocation("a.db").to_absolute().where
        assert "postgresql://h/x" == DatabaseLocation("postgresql://h/x").to_absolute().where
