"""What a shell meets: exit codes, one line an error, no traceback, whatever the streams, signals and arguments."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tcprobe import errors
from tcprobe.cli.shell import Group
from tcprobe.isa import inventory
from tcprobe.isa.names import resolve

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell and signals")
LIST = f"{sys.executable} -m tcprobe list"
INSTALLED = f"""{sys.executable} -c 'import sys; sys.argv[0] = "tcprobe"; from tcprobe.__main__ import main; main()'"""


def shell(command, **environment):
    """Code, stdout and stderr of a shell command."""
    done = subprocess.run(
        ["/bin/bash", "-c", command], capture_output=True, check=False, env=os.environ | environment, timeout=600
    )
    assert b"Traceback" not in done.stderr
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


@pytest.mark.full
@pytest.mark.parametrize("arguments", ["", "--help", "--json", "'wmma.m8n8k4.*'"])
def test_output_that_cannot_be_written_is_an_error(arguments):
    command = f"{LIST} {arguments}"
    assert shell(f"{command} > /dev/full") == (3, "", "Error: the output cannot be written: No space left on device.\n")
    assert shell(f"{command} >&-") == (3, "", "Error: the output cannot be written: Bad file descriptor.\n")
    assert shell(f"{command} <&- >&- 2>&-") == (3, "", "")


@pytest.mark.full
def test_a_full_or_closed_stderr_leaves_the_exit_code():
    for how in ("2>&-", "2>/dev/full"):
        for unbuffered in ("", "1"):  # what is left in a buffer is tried again at the end
            for wrong in ("nonsense", "--nonsense"):
                assert shell(f"{LIST} {wrong} {how}", PYTHONUNBUFFERED=unbuffered) == (2, "", "")
    code, out, _ = shell(f"{LIST} --json 2>&-")
    others = [*resolve("*").shared, *resolve("*").bare]
    assert (code, len(json.loads(out))) == (0, len(inventory.fragments()) + len(others))
    script = "import os; from tcprobe.system import interrupts; interrupts.prepare(); print(os.fstat(2).st_rdev)"
    assert shell(f'{sys.executable} -c "{script}" 2>&-') == (
        0,
        f"{os.stat(os.devnull).st_rdev}\n",
        "",
    )  # as children want it


def test_a_reader_that_goes_is_no_error_but_not_success():
    for unbuffered in ("", "1"):  # a write that is cut short is told to nobody then
        command = f"set -o pipefail; {LIST} --json | head -c 1"
        assert shell(command, PYTHONUNBUFFERED=unbuffered) == (141, "[", "")
    assert shell(f"set -o pipefail; {LIST} --help | true")[::2] == (141, "")


@pytest.mark.full
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("emit wmma.m8n8k4.a.row.f64 --to csv -o ''", "an empty name"),
        ("list --arch sm_80 " + "x" * 20_000, "no fragment or instruction"),
        ("show wmma.m8n8k4.a.row.f64 --results " + "x" * 3000, "File name too long"),
        ("compare " + "x" * 3000, "no fragment or instruction"),
        ("fit " + "x" * 3000, "File name too long"),
        ("fit ''", "an empty name"),
        ("pages --results ''", "an empty name"),
        ("lower --save ''", "an empty name"),
        (r"show $'\xff\xfe\x1b[31m'", r"\\udcff\\udcfe\\x1b[31m"),
    ],
)
def test_odd_names_are_mistakes_in_the_call(arguments, words, tmp_path):
    code, out, said = shell(f"cd {tmp_path}; {sys.executable} -m tcprobe {arguments}", PYTHONPATH=os.getcwd())
    assert (code, out) in ((2, ""), (4, ""))
    assert words.replace("\\\\", "\\") in said
    assert "\x1b" not in said
    assert not list(tmp_path.iterdir())


def test_text_of_any_kind_reaches_an_ascii_output():
    code = "import click; from tcprobe.system.interrupts import prepare; prepare(); click.echo('\\u00d7 \\udcff')"
    for environment in ({"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin1"}, {"LC_ALL": "C"}):
        assert shell(f'{sys.executable} -c "{code}"', **environment)[0] == 0


@pytest.mark.full
@pytest.mark.parametrize("columns", ["0", "abc", "-5", "1", "9" * 30])
def test_odd_terminal_widths(columns):
    assert shell(f"{sys.executable} -m tcprobe show wmma.m8n8k4.a.row.f64", COLUMNS=columns)[0] == 0


def test_a_working_directory_that_is_gone(tmp_path):
    gone = f"mkdir {tmp_path}/x; cd {tmp_path}/x; rmdir {tmp_path}/x; {sys.executable} -m tcprobe"
    assert shell(f"{gone} show wmma.m8n8k4.a.row.f64")[0] == 0
    code, _, said = shell(f"{gone} emit wmma.m8n8k4.a.row.f64 --to csv -o file")
    assert code == 3
    assert "cannot write file: No such file or directory" in said


# signals


# reports when tcprobe begins, then waits where imports would take long
SLOW = """
import os, sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.write(1, b"x")
            time.sleep(30)
sys.meta_path.insert(0, Slow())
from tcprobe.__main__ import main
sys.argv = ["tcprobe", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("module", ["tcprobe.cli", "click", "tcprobe.ask.entry"])
def test_a_signal_while_importing_is_one_line(number, code, module):
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("who started the tests has this signal ignored, as nohup does with SIGHUP")
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(module=module), "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.read(1) == b"x"
    process.send_signal(number)
    _, said = process.communicate(timeout=600)
    assert (process.returncode, said) == (code, b"Stopped.\n")


def test_a_signal_that_is_ignored_stays_ignored():
    code = "import signal; from tcprobe.system.interrupts import prepare; prepare(); print(repr(signal.getsignal(1)))"
    assert "SIG_IGN" in shell(f'trap "" HUP; {sys.executable} -c "{code}"')[1]


def test_a_second_signal_does_not_wait():
    code = (
        "import os, time; from tcprobe.system.interrupts import prepare\nprepare()\n"
        "try:\n    os.write(1, b'x'); time.sleep(30)\n"
        "finally:\n    os.write(1, b'y'); time.sleep(30)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for letter in (b"x", b"y"):
        assert process.stdout.read(1) == letter
        process.send_signal(signal.SIGINT)
    assert process.wait(timeout=600) == 130


def test_a_signal_in_a_destructor_still_stops():
    code = (
        "import os, sys, time; from tcprobe.system.interrupts import prepare; from tcprobe.__main__ import unraisable\n"
        "prepare(); sys.unraisablehook = unraisable\nclass Slow:\n    def __del__(self):\n"
        "        os.write(1, b'x'); time.sleep(30)\nslow = Slow()\ndel slow\ntime.sleep(30)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.read(1) == b"x"
    process.send_signal(signal.SIGTERM)
    assert (process.communicate(timeout=600)[1], process.returncode) == (b"Stopped.\n", 143)


# errors


def group(error):
    """A command line whose only command meets an error."""

    @click.group(cls=Group)
    def main():
        pass

    @main.command()
    def fail():
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (errors.UsageError("so"), 2, "Error: so\n"),
        (errors.DataError("so"), 4, "Error: so\n"),
        (errors.ProbeError("so"), 1, "Error: so\n"),
        (PermissionError(13, "Permission denied", "/x"), 3, "Error: /x: Permission denied.\n"),
        (OSError(36, "File name too long", "/x"), 2, "Error: /x: File name too long.\n"),
        (KeyError("x"), 70, "Error: internal error, please report it: KeyError: 'x'\n"),
        (KeyboardInterrupt(), 130, "Stopped.\n"),
    ],
)
def test_every_error_has_a_line_and_a_code(error, code, words, monkeypatch):
    monkeypatch.delenv("TCPROBE_DEBUG", raising=False)
    done = CliRunner().invoke(group(error), ["fail"])
    assert (done.exit_code, done.stderr) == (code, words)


def while_handling(first, error):
    """An error that comes of another."""
    error.__context__ = first
    return error


STARVED = (
    MemoryError(),
    RuntimeError("can't start new thread"),
    RuntimeError("can't allocate read lock"),
    RuntimeError("can't allocate lock"),
    SystemError("<function f> returned NULL without setting an exception"),
    SystemError("error return without exception set"),
    ImportError("x.so: failed to map segment from shared object"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    OSError(errno.ENOMEM, "Cannot allocate memory", "/bin/sh"),
    BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
    while_handling(MemoryError(), KeyError("x")),
    while_handling(OSError(errno.ENOMEM, "Cannot allocate memory"), errors.EnvironmentUnfitError("no folder")),
    errors.StarvedError(),
)


@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize("error", STARVED, ids=repr)
def test_want_of_memory_threads_or_processes_is_one_message(error, debug, monkeypatch):
    monkeypatch.setenv("TCPROBE_DEBUG", debug)
    done = CliRunner().invoke(group(error), ["fail"])
    assert (done.exit_code, done.stderr) == (3, f"Error: {errors.StarvedError()}\n")


@pytest.mark.parametrize("error", [errors.DataError("cannot allocate memory"), OSError(errno.EIO, "so"), ValueError()])
def test_what_is_no_want_of_memory(error):
    assert not errors.is_want_of_resources(error)


def test_a_stream_that_nobody_reads_is_no_want_of_memory():
    assert not errors.is_want_of_resources(
        BlockingIOError(errno.EAGAIN, "write could not complete without blocking", 0)
    )


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    "words", ["COMP_WORDS='tcprobe sh'", "COMP_CWORD=1", "COMP_WORDS=x COMP_CWORD=x", "COMP_WORDS= COMP_CWORD=' '"]
)
def test_damaged_completion_is_a_mistake_in_the_call(shell_name, words):
    code, out, said = shell(f"{words} _TCPROBE_COMPLETE={shell_name}_complete {INSTALLED}")
    if (shell_name, words) == ("fish", "COMP_WORDS=x COMP_CWORD=x"):  # there it is the word itself
        assert (code, said) == (0, "")
        return
    assert (code, out) == (2, "")
    assert said.startswith("Error: completion takes COMP_WORDS")
    assert said.count("\n") == 1


def test_tracebacks_are_for_who_asks_for_them(monkeypatch):
    monkeypatch.setenv("TCPROBE_DEBUG", "1")
    done = CliRunner().invoke(group(KeyError("x")), ["fail"])
    assert done.exit_code == 70
    assert "Traceback" in done.stderr
    assert "Traceback" not in CliRunner().invoke(group(errors.UsageError("so")), ["fail"]).stderr


def test_errors_have_their_class_by_name():
    for kind in (errors.DataError, errors.NewerSchemaError, errors.UsageError, errors.InternalError, errors.RowError):
        assert errors.class_named(kind.__name__) is kind
    assert errors.class_named("of a later version") is errors.TcprobeError


def test_the_exit_codes_of_the_docs_are_those_of_the_classes():
    text = (Path(__file__).parent.parent / "docs" / "usage.md").read_text()
    for code in (0, 1, 2, 3, 4, 70, 130, 141, 143):
        assert f"{code} " in text.split("Exit codes:")[1].split("\n\n")[0], code
