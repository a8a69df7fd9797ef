"""Some of the faults, kills and limits of memory of `benchmarks/faults.py`, which tries them all."""

import functools
import os
import random

import faults
import kills
import pytest
import scarcity
from machine_code import needs_tools

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell and signals"), needs_tools]
SOME = (
    "ptxas hangs with children that ignore SIGTERM",
    "ptxas dies by SIGSEGV",
    "ptxas writes a FIFO",
    "ptxas writes half a cubin",
    "ptxas has escapes in its words",
    "ptxas names every kernel, with escapes",
    "ptxas is slow",
    "ptxas leaves a child behind",
    "nvdisasm prints half",
    "nvdisasm prints without end",
    "ptxas has no interpreter",
    "an empty environment",
    "all streams closed",
    "10 open files",
    "files of 512 bytes",
    "300 MB of memory",
    "TMPDIR cannot be written",
)
QUICK = [work for work in kills.WORKS if work.name in ("run", "lower", "pages", "emit")]


@pytest.mark.parametrize("fault", [f for f in faults.FAULTS if f.name in SOME], ids=lambda f: f.name)
@pytest.mark.sampled(42)
def test_a_fault_ends_in_a_message_and_leaves_nothing(fault, tmp_path):
    found = faults.attempt(fault, tmp_path)
    assert not found.wrong, found.errors


@pytest.mark.full
@pytest.mark.parametrize(
    ("work", "how"), [(w, kills.SIGNALS[j % 3]) for j, w in enumerate(QUICK)], ids=lambda x: x.name
)
def test_a_command_may_be_stopped_at_any_moment(work, how, tmp_path):
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    whole, seconds = kills.undisturbed(work, tmp_path / "whole")
    after = random.Random(work.name).uniform(0.1, seconds)
    assert not kills.stop(work, how, after, tmp_path / "stopped", whole)


STARVED = (
    ("run", 90),
    ("run", 300),
    ("show formulas", 80),
    ("where", 60),
    ("merge", 100),
    ("merge", 150),
    ("site", 130),
)


@functools.cache
def unhindered(work, parent):
    """The digests of the files that a work makes; a site is not begun with so little memory."""
    folder = parent / f"whole {work.name}"
    folder.mkdir()
    return kills.undisturbed(work, folder)[0] if work.name != "site" else {}


@pytest.mark.parametrize(("name", "megabytes"), STARVED)
@pytest.mark.sampled(3)
def test_a_command_that_gets_little_memory_works_or_says_so(name, megabytes, tmp_path, tmp_path_factory):
    (work,) = [work for work in scarcity.WORKS if work.name == name]
    _, wrong, errors = scarcity.starve(work, megabytes, tmp_path, unhindered(work, tmp_path_factory.getbasetemp()))
    assert not wrong, errors


def test_there_are_as_many_faults_as_are_claimed():
    assert len({f.name for f in faults.FAULTS}) == len(faults.FAULTS) >= 60
    assert {f.name for f in faults.FAULTS} >= set(SOME)
