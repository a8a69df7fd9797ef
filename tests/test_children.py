"""Child processes end with their block, with an error, and with this program; so do temporary folders."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import faults
import pytest

from tcprobe.errors import StarvedError
from tcprobe.system import children, worker
from tcprobe.system.children import MOST_BYTES, HungError, Scratch, StoppedError, one_line

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell and signals")
SH = ("/bin/sh", "-c")
# a tool with a child that ignores SIGTERM; both pids go to a file
STUBBORN = 'trap "" TERM; echo $$ >> {0}; (trap "" TERM; sh -c \'echo $PPID >> {0}; sleep 100\'); sleep 100'


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def wait_for(condition, seconds=60.0):
    """Whether the condition comes true."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def alive(pids: Path):
    """Processes of a file of pids that are still there; zombies are not."""
    found = []
    for pid in pids.read_text().split() if pids.exists() else ():
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
            found.append(pid)
    return found


def test_a_tool_s_code_and_words_come_back_and_the_folder_goes(place):
    with Scratch() as scratch:
        assert scratch.folder.parent == place
        done = scratch.call((*SH, "pwd; echo words >&2; echo x > left; exit 7"), 10)
        assert (done.returncode, done.stdout, done.stderr) == (7, f"{scratch.folder}\n", "words\n")
        assert scratch.call((*SH, "kill -SEGV $$"), 10).returncode == -11
    assert not list(place.iterdir())


def test_the_folder_goes_after_an_error_and_where_tools_wrote_into_it(place):
    def fail():
        with Scratch() as scratch:
            scratch.call((*SH, "mkdir -p a/b; echo x > a/b/c; chmod 0 a/b/c"), 10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not list(place.iterdir())


def test_a_tool_that_hangs_is_stopped_with_its_children(place, tmp_path_factory):
    pids = tmp_path_factory.mktemp("pids") / "pids"
    with Scratch() as scratch:
        with pytest.raises(HungError, match=r"no answer within 1 s"):
            scratch.call((*SH, STUBBORN.format(pids)), 1)
        with pytest.raises(HungError):  # nothing runs here any more
            scratch.call((*SH, "true"), 10)
    assert not alive(pids)
    assert not list(place.iterdir())


def test_a_tool_does_not_fill_the_disk():
    with Scratch() as scratch:
        done = scratch.call((*SH, "exec cat /dev/zero > file"), 30)
        assert done.returncode == -signal.SIGXFSZ
        assert (scratch.folder / "file").stat().st_size == MOST_BYTES
        assert len(scratch.call((*SH, "exec yes"), 30).stdout) == MOST_BYTES


def test_what_is_no_program_is_an_error(place):
    with Scratch() as scratch:
        assert scratch.call((str(place / "nothing"),), 10).returncode == 127


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_tools_and_folders_end_with_the_program(place, tmp_path_factory, number):
    pids = tmp_path_factory.mktemp("pids") / "pids"
    code = (
        "import sys; from tcprobe.system.children import Scratch\n"
        "with Scratch() as scratch: scratch.call(('/bin/sh', '-c', sys.argv[1]), 100)"
    )
    program = subprocess.Popen([sys.executable, "-c", code, STUBBORN.format(pids)])
    assert wait_for(lambda: len(alive(pids)) == 2)
    assert len(list(place.iterdir())) == 1
    program.send_signal(number)
    program.wait()
    assert wait_for(lambda: not alive(pids))
    assert wait_for(lambda: not list(place.iterdir()))


def test_an_error_in_one_thread_ends_what_the_others_wait_for(place):
    def hang():
        with Scratch() as scratch:
            scratch.call((*SH, "sleep 100"), 100)

    def fail():
        with children.threads(2) as pool:
            hanging.extend(pool.submit(hang) for _ in range(4))
            assert wait_for(lambda: len(list(place.iterdir())) == 2)
            raise ZeroDivisionError

    hanging = []
    with pytest.raises(ZeroDivisionError):
        fail()
    assert [type(f.exception()) if not f.cancelled() else None for f in hanging[:2]] == [StoppedError] * 2
    assert all(f.cancelled() or isinstance(f.exception(), StoppedError) for f in hanging)
    assert not list(place.iterdir())
    with Scratch() as scratch:  # the next one is not concerned
        assert scratch.call((*SH, "true"), 10).returncode == 0


def test_a_place_that_cannot_be_written_is_passed_over(monkeypatch):
    monkeypatch.setenv("TMPDIR", "/proc/nowhere")
    with Scratch() as scratch:
        assert scratch.folder.parent == Path("/tmp")


def test_words_are_one_line_that_prints():
    assert one_line("a\n\tb \x1b[31m\x07\u202e é") == r"a b \x1b[31m\x07\u202e é"
    assert len(one_line("\x00" * 10_000)) == 300


def test_an_error_before_the_run_leaves_no_worker(tmp_path):
    """Workers are started before anything is imported that says that the folder cannot be."""
    environment = faults.start_environment(tmp_path)
    command = [*faults.PYTHON, *faults.RUN, "--results", "x" * 300]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode in (2, 3)
    assert faults.left(environment) == []


@pytest.mark.parametrize(
    "text",
    [
        "raise MemoryError",
        'raise RuntimeError("can\'t allocate lock")',
        "import threading, time\ndef f(): raise MemoryError\nthreading.Thread(target=f).start(); time.sleep(60)",
        "class Odd:\n    def __del__(self): raise MemoryError\nOdd()",
        "try:\n    raise MemoryError\nexcept MemoryError:\n    raise ImportError('numpy is broken') from None",
        "import os; os.kill(os.getpid(), 9)",
    ],
)
def test_a_worker_that_gets_no_memory_says_so_by_its_end(text, tmp_path):
    (tmp_path / "starving.py").write_text(text)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(worker.command("starving"), env=environment, capture_output=True, check=False, timeout=600)
    assert (done.stdout, done.stderr) == (b"", b"")
    with pytest.raises(StarvedError):
        children.exit_code(done.returncode)


def test_a_worker_that_goes_wrong_otherwise_shows_it(tmp_path):
    (tmp_path / "wrong.py").write_text("import sys; print(sys.argv[1:], __name__); raise KeyError('x')")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = worker.command("wrong", "a", "b")
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=600)
    assert (children.exit_code(done.returncode), done.stdout) == (1, b"['a', 'b'] __main__\n")
    assert b"KeyError" in done.stderr


STARTS = """
import threading, _thread
from tcprobe.system import interrupts
interrupts.reserve_numpy_room()
real = _thread.start_new_thread
def stillborn(function, arguments):
    return real(lambda: None, ())
{patch}
from concurrent.futures import ThreadPoolExecutor
try:
    {start}
    print("begun")
except MemoryError as error:
    print("noticed:", error)
import os; import sys; sys.stdout.flush(); os._exit(0)
"""


@pytest.mark.parametrize(
    "start",
    [
        "threading.Thread(target=print).start()",
        "threading.Timer(0.1, print).start()",
        "ThreadPoolExecutor(1).submit(int).result()",
    ],
)
@pytest.mark.parametrize("born", [True, False])
def test_a_thread_that_ends_before_it_begins_is_noticed(start, born):
    """As one does that gets no memory for its first frame: `Thread.start`, of pools and timers too, waited forever."""
    names = ("_start_new_thread", "_start_joinable_thread")
    patch = (
        ""
        if born
        else "\n".join(
            f"if hasattr(threading, {name!r}): threading.{name} = lambda function, *a, **k: stillborn(function, ())"
            for name in names
        )
    )
    code = STARTS.format(patch=patch, start=start)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.split(":")[0].split()[-1] == ("begun" if born else "noticed")


def test_a_listener_that_ended_is_not_waited_for(monkeypatch):
    """The thread that hears a worker may end without a word; the session says so long before the worker's limit."""
    from types import SimpleNamespace

    from tcprobe.run.runner import Session

    monkeypatch.setattr("tcprobe.run.runner.LAST_BREATH", 0.01)
    monkeypatch.setattr(Session, "_listen", lambda self: None)
    silent = SimpleNamespace(kill=lambda: None, wait=lambda: 0)
    session = Session(SimpleNamespace(limit=1e6, until=float("inf")), silent)
    with pytest.raises(StarvedError):
        _ = session.devices


@pytest.mark.parametrize("how", ["takes no work", "dies at work"])
def test_work_of_a_thread_that_is_gone_is_not_waited_for(monkeypatch, how):
    """A thread of a pool that ended without a word, before it took the work or while it had it."""
    from concurrent.futures import thread

    from tcprobe.system.children import Pool

    def gone(_executor, queue, *_):
        if how == "dies at work":
            queue.get().future.set_running_or_notify_cancel()

    monkeypatch.setattr(thread, "_worker", gone)
    pool = Pool(2)
    future = pool.submit(int, "7")
    for ask in (future.result, future.exception, lambda: next(pool.map(int, ["7"]))):
        with pytest.raises(MemoryError, match="a thread ended before its work"):
            ask()


def test_a_pool_that_works_answers():
    from tcprobe.system.children import Pool

    with Pool(2) as pool:
        assert list(pool.map(lambda n: time.sleep(0.6) or n, [1, 2])) == [1, 2]
        failing = pool.submit(int, "x")
        assert isinstance(failing.exception(), ValueError)
        with pytest.raises(ValueError, match="invalid literal"):
            failing.result()
    assert pool.submit is not None
    assert not pool.is_broken
