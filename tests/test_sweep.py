"""What a killed writer leaves is removed, what others own stays, and nobody who writes is disturbed."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context

import pytest

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.store.results import Results, published
from tcprobe.system import files

posix = pytest.mark.skipif(os.name != "posix", reason="needs processes that fork")


def parts(folder):
    return [p for p in folder.rglob("*") if ".part" in p.name]


def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_sweep_removes_what_a_writer_left_that_is_gone_and_nothing_else(tmp_path):
    results = Results(tmp_path)
    gone, here, token = dead(), os.getpid(), "0123456789abcdef"
    for folder in ("", "layouts", "sm_90", "sm_90/live", "other", "sm_90/live/banks", "sm_90/live/banks/deeper"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    left = [
        tmp_path / f / f".tcprobe-{gone}-{token}.part"
        for f in ("", "layouts", "sm_90", "sm_90/live", "sm_90/live/banks")
    ]
    kept = [
        tmp_path / name
        for name in (
            "x.json.part",
            "layouts/y.json.123.json.part",
            f".tcprobe-{here}-{token}.part",
            f".tcprobe-{gone}-{token}.p",
            f".tcprobe-{gone}-{token[1:]}.part",
            f".tcprobe-{gone}-mine.part",
            f"tcprobe-{gone}-{token}.part",
            f".tcprobe-0-{token}.part",
            f"other/.tcprobe-{gone}-{token}.part",
            f"sm_90/live/banks/deeper/.tcprobe-{gone}-{token}.part",
        )
    ]
    for path in (*left, *kept):
        path.write_text("{")
    (tmp_path / "sm_90" / f".tcprobe-{gone}-{'a' * 16}.part").mkdir()
    results.sweep()
    assert [p.exists() for p in left] == [False] * len(left)
    assert [p.exists() for p in kept] == [True] * len(kept)
    assert (tmp_path / "sm_90" / f".tcprobe-{gone}-{'a' * 16}.part").is_dir()


@posix
def test_a_sweep_does_not_follow_links(tmp_path):
    target = tmp_path / "target"
    target.write_text("mine")
    link = tmp_path / f".tcprobe-{dead()}-0123456789abcdef.part"
    link.symlink_to(target)
    Results(tmp_path).sweep()
    assert target.read_text() == "mine"
    assert link.is_symlink()


def test_a_number_that_was_given_to_another_process_does_not_keep_a_part_file_for_ever(tmp_path):
    part = tmp_path / f".tcprobe-{os.getpid()}-0123456789abcdef.part"
    part.write_text("{")
    os.utime(part, (0, time.time() - files.DAY / 2))
    Results(tmp_path).sweep()
    assert part.exists()
    os.utime(part, (0, time.time() - 2 * files.DAY))
    Results(tmp_path).sweep()
    assert not part.exists()


def sweep_always(folder, stop):
    """As from another machine, to which every writer looks gone."""
    files.alive = lambda _process: False
    while not stop.is_set():
        Results(folder).sweep()


def write_many(folder, number, failed):
    for turn in range(300):
        try:
            files.write(folder / f"x{turn % 7}", bytes([number]) * 5000)
        except EnvironmentUnfitError as error:
            failed.put(str(error))


@pytest.mark.full
@posix
@pytest.mark.parametrize("sweep", [sweep_always, None])
def test_writes_beside_sweeps_do_not_fail(tmp_path, sweep):
    """1,200 writes by four processes while others sweep the same folder all the time."""
    context = get_context("fork")
    stop, failed = context.Event(), context.Queue()
    target = sweep or (lambda folder, stop: [Results(folder).sweep() for _ in iter(stop.is_set, True)])
    sweepers = [context.Process(target=target, args=(tmp_path, stop)) for _ in range(2)]
    writers = [context.Process(target=write_many, args=(tmp_path, n, failed)) for n in range(4)]
    for process in (*sweepers, *writers):
        process.start()
    for process in writers:
        process.join()
    stop.set()
    for process in sweepers:
        process.join()
    assert failed.empty()
    assert not parts(tmp_path)
    assert len(list(tmp_path.iterdir())) == 7
    for path in tmp_path.iterdir():
        assert len(path.read_bytes()) == 5000
        assert len(set(path.read_bytes())) == 1


@posix
def test_a_writer_that_is_killed_leaves_whole_files_and_the_next_sweep_clears_up(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tcprobe.system.files import write\n"
        "while True: write(Path(sys.argv[1]) / 'x', b'y' * (4 << 20))"
    )
    for pause in (0.0, 0.003, 0.01, 0.02, 0.05):
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
        while not (tmp_path / "x").exists():
            time.sleep(0.005)
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (tmp_path / "x").read_bytes() == b"y" * (4 << 20)
    Results(tmp_path).sweep()
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def add_opcodes(root, number):
    opcode = "HMMA.16816.F32"
    data = published().opcodes("sm_90")[opcode]
    tables = {operand: published().layout(layout) for operand, layout in data["layouts"].items()}
    for turn in range(10):
        Results(root).write_opcodes("sm_90", "c", {f"HMMA.{number}.{turn}": (tables, data["source"])})


@posix
def test_opcodes_that_several_processes_add_at_once_are_all_kept(tmp_path):
    context = get_context("fork")
    writers = [context.Process(target=add_opcodes, args=(tmp_path, n)) for n in range(4)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
        assert process.exitcode == 0
    expected = {f"HMMA.{number}.{turn}" for number in range(4) for turn in range(10)}
    assert set(Results(tmp_path).opcodes("sm_90")) == expected
