"""On a terminal: progress, and a pager for what is longer than it. In a pipe: neither, and the same text."""

import os
import pty
import select
import struct
import subprocess
import sys
from fcntl import ioctl
from termios import TIOCSWINSZ

import machine_code
import pytest

A = "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"
PAGER = f"{sys.executable} {{}}"
NOTING = "import sys\ntext = sys.stdin.read()\nprint('PAGED', len(text.splitlines()))\n"


def on_terminal(*words, lines=24, **env):
    """What a command writes on a terminal of 80 columns, both streams."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", lines, 80, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "PAGER")}
    command = [sys.executable, "-m", "tcprobe", *words]
    made = kept | {"TERM": "xterm", **env}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=made) as process:
        os.close(theirs)
        text = b"".join(_read(ours, process))
    os.close(ours)
    return process.returncode, text.decode()


def _read(ours, process):
    while True:
        ready, _, _ = select.select([ours], [], [], 0.2)
        if not ready:
            if process.poll() is not None:
                return
            continue
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so of a terminal whose other end is closed
            return
        if not part:
            return
        yield part


def piped(*words, **env):
    """What a command writes into pipes: (standard output, standard error)."""
    done = subprocess.run(
        [sys.executable, "-m", "tcprobe", *words], capture_output=True, text=True, check=False, env=os.environ | env
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def pager(tmp_path):
    path = tmp_path / "pager.py"
    path.write_text(NOTING)
    return PAGER.format(path)


@pytest.mark.full
@pytest.mark.parametrize("words", [("show", A, "--full"), ("show", A, "--lanes"), ("list", "mma.m16n8k16.*")])
def test_what_is_longer_than_the_terminal_goes_to_the_pager(words, pager):
    code, text = on_terminal(*words, PAGER=pager)
    assert code == 0
    counted = int(text.partition("PAGED ")[2].split()[0])
    assert counted == len(piped(*words, COLUMNS="80")[0].splitlines())


@pytest.mark.parametrize("words", [("show", A), ("list",), ("show", A, "--json")])
def test_what_is_brief_and_what_is_data_never_does(words, pager):
    code, text = on_terminal(*words, PAGER=pager, lines=40)
    assert (code, "PAGED" in text) == (0, False)
    assert A in text or "88 fragments, sm_70" in text


def test_what_fits_is_printed_with_its_colours(pager):
    code, text = on_terminal("show", A, "--elements", PAGER=pager, lines=60)
    assert (code, "PAGED" in text) == (0, False)
    assert f"\x1b[1m{A}" in text
    assert "\x1b" not in on_terminal("show", A, "--elements", PAGER=pager, lines=60, NO_COLOR="1")[1]


def test_a_pager_may_be_turned_off():
    plain = piped("show", A, "--full", COLUMNS="80")[0]
    code, text = on_terminal("show", A, "--full", PAGER="", NO_COLOR="1")
    assert (code, text.replace("\r\n", "\n")) == (0, plain)


def test_an_error_after_some_text_is_told_and_keeps_its_code(pager):
    code, text = on_terminal("show", "nonsense", "--full", PAGER=pager)
    assert code == 2
    assert "Error: " in text


@pytest.mark.full
@pytest.mark.skipif(machine_code.TOOLS is None, reason=machine_code.REASON)
def test_compilers_has_a_bar_on_a_terminal_and_none_in_a_pipe():
    words = ("compilers", "wmma.m8n8k4.*", "--arch", "sm_80")
    code, text = on_terminal(*words)
    assert code == 0
    assert "machine" in text
    assert "1/1" in text
    _, talk = piped(*words)
    assert talk == ""


def test_audit_says_which_package_it_reads_on_a_terminal_alone(tmp_path):
    folder = tmp_path / "a[" / "red]"  # rich would take it for markup
    folder.mkdir(parents=True)
    (folder / f"{A}.csv").write_text(piped("emit", A, "--arch", "sm_90", "--to", "csv")[0])
    words = ("audit", str(folder))
    code, text = on_terminal(*words)
    assert code == 0
    assert "1 of 1: reading layouts of" in text
    out, talk = piped(*words)
    assert talk == ""
    assert "1 layouts" in out
