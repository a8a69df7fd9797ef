"""The emitted code of paths and straight loads, compiled for the host and run: every byte comes to its place."""

import shutil
import subprocess

import host_cuda
import path_cases
import path_products
import pytest
from path_cases import CASES, Case
from path_products import STRAIGHT

from tcprobe.ask.path.code import name, source

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
BY_LANES = [case for case in CASES if case.fill != "tma"]


def step(threads, call, given, wanted):
    return f"step({threads}, {len(given[-1])}, {len(wanted[-1])}, output, {call});"


def ran(folder, cases):
    """(wanted, found) of each case."""
    headers, calls, given, wanted = [], [], [], []
    for case in cases:
        found, data = path_cases.plan(case), path_cases.data(case, 3)
        loads = found.request.loads
        headers.append(source(found))
        given.append((data.image if loads else data.registers).tobytes())
        wanted.append((data.registers if loads else data.image).tobytes())
        call = f"{'load' if loads else 'store'}<{name(found)}>"
        calls.append(step(path_cases.threads(case), call, given, wanted))
    out = host_cuda.execute(folder, headers, calls, b"".join(given))
    assert len(out) == sum(map(len, wanted))
    found = []
    for one in wanted:
        found.append(out[: len(one)])
        out = out[len(one) :]
    return list(zip(wanted, found, strict=True))


@pytest.mark.full
def test_every_case_brings_every_byte_to_its_place(tmp_path):
    for case, (wanted, found) in zip(BY_LANES, ran(tmp_path, BY_LANES), strict=True):
        assert wanted == found, str(case)


@pytest.mark.full
def test_code_that_is_wrong_is_noticed(tmp_path, monkeypatch):
    """A wrong shift in an address, or registers in another order."""
    case = Case(path_cases.F16 + ".a", "32x32", "row", "sw:2,4,3", "ldmatrix.x4")
    right = source
    for old, new in (("lane & 16", "lane & 8"), ("registers + issue * 4", "registers + (issue ^ 1) * 4")):
        assert old in right(path_cases.plan(case))
        monkeypatch.setitem(globals(), "source", lambda plan, a=old, b=new: right(plan).replace(a, b))
        try:
            [(wanted, found)] = ran(tmp_path, [case])
        except subprocess.CalledProcessError:  # an address that the instruction does not take
            continue
        assert wanted != found


def test_straight_loads_bring_every_element(tmp_path):
    headers, calls, given, wanted = [], [], [], []
    for number in range(len(STRAIGHT)):
        image, registers = path_products.straight_data(number, 3)
        text = path_products.straight_program(number).partition("extern")[0]
        headers.append(text)
        given.append(image.tobytes())
        wanted.append(registers.tobytes())
        calls.append(step(32, f"straight<{text.partition('struct ')[2].partition(' ')[0]}>", given, wanted))
    assert host_cuda.execute(tmp_path, headers, calls, b"".join(given)) == b"".join(wanted)
