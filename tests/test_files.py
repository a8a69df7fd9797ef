"""Files are read bounded and regular only, written whole or not at all, and those of others are left alone."""

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from tcprobe.cli import main
from tcprobe.errors import DataError, EnvironmentUnfitError
from tcprobe.store.results import Results, published
from tcprobe.system import files

posix = pytest.mark.skipif(os.name != "posix", reason="needs FIFOs, links and POSIX permissions")
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and /dev/full")
TEXT = b"whole\n" * 1000


def parts(folder):
    return [p for p in folder.rglob("*") if ".part" in p.name]


# reading


def test_a_regular_file_is_read_and_a_missing_one_is_none(tmp_path):
    (tmp_path / "x").write_bytes(TEXT)
    assert files.read(tmp_path / "x") == TEXT
    assert files.read(str(tmp_path / "x"), len(TEXT)) == TEXT
    assert files.read(tmp_path / "none") is None
    assert files.read(tmp_path / "x" / "y") is None
    with pytest.raises(DataError, match="6000 bytes; tcprobe reads files of at most 5999"):
        files.read(tmp_path / "x", len(TEXT) - 1)


@posix
@pytest.mark.parametrize(
    "kind", ["folder", "fifo", "socket", "device", "link to a device", "loop", "long", "zero byte"]
)
def test_nothing_but_regular_files_is_read_and_nothing_is_waited_for(tmp_path, monkeypatch, kind):
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        listening = socket.socket(socket.AF_UNIX)
        monkeypatch.chdir(tmp_path)  # the names of sockets are short
        listening.bind("x")
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path = {"device": Path("/dev/zero"), "long": tmp_path / ("x" * 5000), "zero byte": Path("a\0b")}[kind]
    with pytest.raises(DataError, match=r"not a regular file|cannot be read"):
        files.read(path)


@posix
def test_a_file_larger_than_memory_is_not_read(tmp_path):
    with open(tmp_path / "x", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match="1099511627776 bytes"):
        files.read(tmp_path / "x")


# writing


def test_a_new_file_has_the_usual_permissions_and_an_old_one_keeps_its_own(tmp_path):
    path, plain = tmp_path / "x", tmp_path / "plain"
    files.write(path, TEXT)
    plain.write_bytes(b"")
    assert path.read_bytes() == TEXT
    assert path.stat().st_mode == plain.stat().st_mode
    for mode in (0o600, 0o751, 0o664):
        path.chmod(mode)
        files.write(path, b"other")
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"other", mode)
    assert not parts(tmp_path)


@posix
def test_a_link_stays_a_link_and_its_target_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    target, link, second = tmp_path / "there" / "x", tmp_path / "link", tmp_path / "second"
    link.symlink_to(target)
    second.symlink_to("link")
    for path, data in ((link, b"one"), (second, b"two")):  # the first time it leads nowhere
        files.write(path, data)
        assert target.read_bytes() == data
        assert (link.is_symlink(), second.is_symlink()) == (True, True)


@posix
def test_a_fifo_is_written_through(tmp_path):
    path, got = tmp_path / "x", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    files.write(path, TEXT)
    reader.join(10)
    assert got == [TEXT]
    assert stat.S_ISFIFO(path.stat().st_mode)


WRITE = (
    "import sys; from pathlib import Path; from tcprobe.system.files import write; write(Path(sys.argv[1]), b'new\\n')"
)


@linux
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_standard_output_is_written_through_wherever_it_leads(tmp_path, name, mode):
    """Also where it is a regular file, which something was written into before."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    command = [sys.executable, "-c", WRITE, name]
    assert subprocess.run(command, check=True, capture_output=True, cwd=tmp_path).stdout == b"new\n"
    (tmp_path / "out").write_bytes(b"old\n")
    with open(tmp_path / "out", mode) as out:
        subprocess.run(command, check=True, stdout=out, cwd=tmp_path)
        assert os.fstat(out.fileno()).st_ino == (tmp_path / "out").stat().st_ino
    assert (tmp_path / "out").read_bytes() == (b"old\n" if mode == "ab" else b"") + b"new\n"


@linux
def test_devices_are_written_through_and_say_when_they_are_full(tmp_path):
    before = os.stat("/dev/null")
    files.write(Path("/dev/null"), TEXT)
    assert os.stat("/dev/null").st_rdev == before.st_rdev
    with pytest.raises(EnvironmentUnfitError, match="cannot write /dev/full: No space left on device"):
        files.write(Path("/dev/full"), TEXT)
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(EnvironmentUnfitError, match="No space left"):
        files.write(tmp_path / "full", TEXT)


@posix
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder", "Is a directory"),
        ("folder/", "Is a directory"),
        ("", "Is a directory"),
        (".", "Is a directory"),
        ("none/x", "No such file or directory"),
        ("file/x", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("x" * 300, "File name too long"),
        ("y/" * 3000 + "x", "File name too long"),
        ("listening", "No such device or address"),
    ],
)
def test_what_cannot_be_written_is_a_clear_error_and_leaves_nothing(tmp_path, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").write_bytes(b"old")
    Path("loop").symlink_to("loop")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("listening")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(EnvironmentUnfitError, match=f"cannot write .*: {words}"):
        files.write(Path(name), TEXT)
    done = CliRunner().invoke(main, ["emit", "wmma.m16n16k16.d.f32", "--to", "csv", "-o", name])
    assert done.exit_code in (2, 3)  # click refuses folders itself
    assert "Traceback" not in done.stderr
    assert isinstance(done.exception, SystemExit)
    assert sorted(tmp_path.rglob("*")) == before
    assert Path("file").read_bytes() == b"old"


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_is_write_protected_stays(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "x").chmod(0o444)
    with pytest.raises(EnvironmentUnfitError, match="Permission denied"):
        files.write(tmp_path / "x", TEXT)
    assert (tmp_path / "x").read_bytes() == b"old"


@posix
def test_a_write_that_is_cut_short_leaves_the_old_file_and_nothing_else(tmp_path):
    """A full disk in the middle of the file, by a limit of the system."""
    (tmp_path / "x").write_bytes(b"old")
    code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (5, 5))\n{WRITE.replace('new', 'n' * 100)}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")], capture_output=True, text=True, check=False
    )
    assert "cannot write" in done.stderr
    assert "large" in done.stderr
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"x": b"old"}


def test_a_missing_folder_is_made_only_where_that_is_asked_for(tmp_path):
    with pytest.raises(EnvironmentUnfitError):
        files.write(tmp_path / "a" / "b" / "x", TEXT)
    assert not list(tmp_path.iterdir())
    files.write(tmp_path / "a" / "b" / "x", TEXT, parents=True)
    assert (tmp_path / "a" / "b" / "x").read_bytes() == TEXT


@pytest.mark.parametrize("name", ["", "out/", "none/", "file/"])
def test_a_file_to_write_has_a_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(b"old")
    done = CliRunner().invoke(main, ["emit", "wmma.m16n16k16.d.f32", "--to", "csv", "-o", name])
    assert (done.exit_code, ("is not a file name" if name else "an empty name") in done.stderr) == (2, True)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"file": b"old"}


@posix
@pytest.mark.parametrize("name", ["x" * 300, "y/" * 3000, "loop"])
@pytest.mark.parametrize(
    "command",
    [
        ["fit", "NAME"],
        ["compare", "NAME"],
        ["compare", "NAME.csv", "wmma.m16n16k16.d.f32"],
        ["diff", "NAME", "NAME"],
        ["pages", "--results", "NAME"],
        ["show", "wmma.m16n16k16.d.f32", "--results", "NAME"],
        ["show", "NAME"],
        ["emit", "wmma.m16n16k16.d.f32", "--to", "csv", "-o", "NAME"],
        ["diff", "sm_80", "sm_90", "--results", "NAME"],
    ],
)
def test_names_that_no_file_can_have_get_a_message(tmp_path, monkeypatch, name, command):
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    done = CliRunner().invoke(main, [part.replace("NAME", name) for part in command])
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code in (2, 3, 4)
    assert "Error" in done.stderr
    assert len(done.stderr) < 1500
    assert [p.name for p in tmp_path.iterdir()] == ["loop"]


@pytest.mark.full
@posix
def test_pages_writes_whole_files_through_links_and_leaves_no_parts(tmp_path):
    root = tmp_path / "r"
    results = Results(root)
    for experiment in ("wmma.m16n16k16.accumulator.f32", "wmma.m16n16k16.a.row.f16"):
        results.write(published().measurement("sm_90", "live", experiment))
    (root / "README.md").symlink_to(tmp_path / "elsewhere.md")
    assert CliRunner().invoke(main, ["pages", "--results", str(root)]).exit_code == 0
    assert (root / "README.md").is_symlink()
    assert (tmp_path / "elsewhere.md").read_text().endswith("\n")
    assert not parts(tmp_path)
    before = {p: p.read_bytes() for p in root.rglob("*.md")}
    (root / "changes.md").unlink()
    (root / "changes.md").mkdir()  # a page that cannot be written
    done = CliRunner().invoke(main, ["pages", "--results", str(root)])
    assert done.exit_code == 3
    assert "cannot write" in done.stderr
    assert all(p.read_bytes() == text for p, text in before.items() if p.is_file())
    assert not parts(tmp_path)


@pytest.mark.full
@posix
def test_a_fifo_in_place_of_a_page_is_stale_and_not_waited_for(tmp_path):
    results = Results(tmp_path)
    results.write(published().measurement("sm_90", "live", "wmma.m16n16k16.accumulator.f32"))
    os.mkfifo(tmp_path / "changes.md")
    done = CliRunner().invoke(main, ["pages", "--check", "--results", str(tmp_path)])
    assert done.exit_code == 1
    assert "changes.md" in done.stdout


def test_a_file_that_has_these_bytes_is_left_alone(tmp_path):
    path = tmp_path / "file"
    files.write(path, b"same")
    before = path.stat()
    files.write(path, b"same")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    files.write(path, b"else")
    assert path.read_bytes() == b"else"
    assert path.stat().st_ino != before.st_ino
