"""Machine code: decoded and followed exactly, or refused; the published tables are what it gives today."""

import dataclasses
import random
import re
import shutil
import stat
import sys
from collections import Counter

import numpy as np
import pytest
from command import tcprobe
from machine_code import MEMORY, TOOLS, codes, needs_tools, table
from wrapped_tools import beside

from tcprobe.errors import EnvironmentUnfitError, ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.references import ptx_isa
from tcprobe.run.machine_code import Sass
from tcprobe.sass import tensor, toolchain
from tcprobe.sass.cubin import assemble
from tcprobe.sass.decode import UnreadError, exact
from tcprobe.sass.derive import derive
from tcprobe.sass.machine import Image, Machine
from tcprobe.sass.opcodes import OPCODES
from tcprobe.store.results import Results, published


@needs_tools
@pytest.mark.parametrize("name", ["sm_70", "sm_75", "sm_87", "sm_90", "sm_120"])
@pytest.mark.sampled(3)
def test_the_published_tables_are_what_the_code_gives(name):
    planned, code = codes(name)
    for experiment, launches in planned:
        saved = published().measurement(name, "sass", experiment.id)
        assert saved.tables[experiment.fragments[0].operand] == table(experiment, launches, code), experiment.id


def test_sm_90_is_the_same_live_and_from_machine_code():
    results, same = published(), 0
    for experiment in MEMORY:
        live, sass = (results.measurement("sm_90", method, experiment.id) for method in ("live", "sass"))
        assert live.tables == sass.tables
        same += len(live.tables)
    assert same == 88


def machine(**registers):
    found = Machine(1, [Image(0x7F0000000000, np.zeros(64, np.uint8))], bytes(range(20)), 0x160)
    for name, value in registers.items():
        kind, index = re.fullmatch(r"(R|UR)(\d+)", name).groups()
        found.set(kind, int(index), np.broadcast_to(np.asarray(value, np.uint32), 32))
    return found


def step(m, text):
    m.next = 0
    m._step(exact(text), OPCODES)


LANE = np.arange(32, dtype=np.uint32)


@pytest.mark.parametrize(
    ("text", "registers", "result"),
    [
        ("MOV R1, R2", {"R2": LANE}, LANE),
        ("IMAD R1, R2, 0x3, -R3", {"R2": LANE, "R3": 1}, (LANE * 3 - 1) & 0xFFFFFFFF),
        ("IMAD.HI.U32 R1, R2, 0x10, RZ", {"R2": 0xF0000000}, 15),
        ("IADD3 R1, R2, 0x10, R3", {"R2": 0xFFFFFFFF, "R3": 2}, 17),
        ("LEA R1, R2, R3, 0x4", {"R2": 0xF0000001, "R3": 5}, 21),
        ("LOP3.LUT R1, R2, 0x3, RZ, 0xc0, !PT", {"R2": LANE}, LANE & 3),
        ("LOP3.LUT R1, R2, R3, R4, 0xe2, !PT", {"R2": 12, "R3": 10, "R4": 9}, (12 & 10) | (~10 & 9)),
        ("SHF.R.U32.HI R1, RZ, 0x2, R2", {"R2": LANE}, LANE >> 2),
        ("SHF.L.U32 R1, R2, 0x4, RZ", {"R2": LANE}, LANE << 4),
        ("PRMT R1, R2, 0x5410, R3", {"R2": 0x33221100, "R3": 0x77665544}, 0x55441100),
        ("S2R R1, SR_LANEID", {}, LANE),
        ("MOV R1, c[0x0][0x164]", {}, 0x07060504),
        ("HFMA2 R1, -RZ, RZ, 0, 0", {}, 0),
        ("HFMA2 R1, -RZ, RZ, -0.0, 0", {}, 0x80000000),  # -0 * 0 - 0: why compilers negate the first zero
        ("HFMA2 R1, -RZ, RZ, 1, 2.384185791015625e-07", {}, 0x3C000004),
    ],
)
def test_opcodes(text, registers, result):
    m = machine(**registers)
    step(m, text)
    assert (m.word("R", 1) == np.broadcast_to(np.asarray(result, np.uint32), 32)).all()


def test_wide_arithmetic_and_carries():
    rng = random.Random(4)
    for _ in range(50):
        a, b, c = (rng.getrandbits(64) for _ in range(3))
        m = machine(R2=a & 0xFFFFFFFF, R3=a >> 32, R4=b & 0xFFFFFFFF, R5=b >> 32, R6=c & 0xFFFFFFFF, R7=c >> 32)
        for text in ("IADD3 R8, P0, P1, R2, R4, R6", "IADD3.X R9, R3, R5, R7, P0, P1"):
            step(m, text)
        assert value64(m, 8) == (a + b + c) % 2**64
        for text in ("LEA R8, P0, R2, R4, 0x5", "LEA.HI.X R9, R2, R5, R3, 0x5, P0"):
            step(m, text)
        assert value64(m, 8) == ((a << 5) + b) % 2**64
        step(m, "IADD.64 R8, R2, R4")
        assert value64(m, 8) == (a + b) % 2**64
        step(m, "IMAD.WIDE.U32 R8, R2, R4, R6")
        assert value64(m, 8) == ((a & 0xFFFFFFFF) * (b & 0xFFFFFFFF) + c) % 2**64


def value64(m, index):
    return int(m.word("R", index)[0]) | int(m.word("R", index + 1)[0]) << 32


def test_movm_transposes():
    halves = np.arange(64, dtype=np.uint16).reshape(8, 8)
    m = machine(R2=halves.reshape(-1).view(np.uint32))
    step(m, "MOVM.16.MT88 R1, R2")
    assert np.array_equal(np.ascontiguousarray(m.word("R", 1)).view(np.uint16).reshape(8, 8), halves.T)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FROB.X R1, R2", "opcode FROB.X is not modelled"),
        ("IMAD.WIDE.S16 R2, R2, R2, R2", "opcode IMAD.WIDE.S16"),
        ("MOV R1, R9", "R9 is read, but nobody wrote it"),
        ("MOV R1, R2.H1", "operand R2.H1 where a 32-bit value is needed"),
        ("MOV R1, R2.H0", "operand 'R2.H0' is not known"),
        ("MOV R1, R2, R2", "opcode MOV with these operands is not modelled"),
        ("IADD3 R1, P0, R2, -R2, RZ", "what IADD3 gives P0 is not modelled"),
        ("IADD3 R1, P0, R2, R2, R2", "one carry of three terms"),
        ("IMAD.X R1, R2, R2, R2, P3", "P3 is read, but nobody wrote it"),
        ("SHF.R.U32.HI R1, R2, 0x2, R2", "with these operands is not modelled"),
        ("PRMT R1, R2, 0xf410, R2", "with these operands is not modelled"),
        ("LDG.E R1, [R2.64]", "not a multiple of 4"),
        ("LDG.E.64 R1, [R4]", "not a group of 2 registers"),
        ("LDG.E.64 R6, [R4+0x4]", "not a multiple of 8"),
        ("LDG.E R6, [R4+0x3d]", "not a multiple of 4"),
        ("LDG.E R6, [R4+0x40]", "memory outside the images"),
        ("STG.E [R4], R2", "different values to the same address"),
        ("S2R R1, SR_CLOCKLO", "special register"),
        ("LDC R1, c[0x1][0x160]", "is not known"),
        ("HFMA2 R1, -RZ, RZ, 0.1, 0", "HFMA2 with these operands is not modelled"),
        ("HFMA2 R1, -RZ, RZ, 1e9, 0", "HFMA2 with these operands is not modelled"),
        ("ISETP.NE.S64.AND P0, PT, R2, R2, PT", "opcode ISETP.NE.S64.AND"),
    ],
)
def test_what_is_not_modelled_exactly_is_refused(text, words):
    m = machine(R2=LANE, R3=0, R4=0, R5=0x7F00)
    with pytest.raises(UnreadError, match=re.escape(words)):
        step(m, text)


def test_unknown_constants_may_be_moved_but_not_used():
    m = machine()
    step(m, "LDC R1, c[0x0][0x28]")
    step(m, "ULDC.64 UR4, c[0x0][0x118]")
    with pytest.raises(UnreadError, match="nobody wrote it"):
        step(m, "MOV R2, R1")


def test_one_of_two_carries_alone_is_refused():
    m = machine(R2=1, R3=2, R4=3)
    step(m, "IADD3 R5, P0, P1, R2, R3, R4")
    with pytest.raises(UnreadError, match="count only together"):
        step(m, "IADD3.X R6, R2, R3, R4, P0, !PT")


# what follows for multiplies


@pytest.mark.full
@needs_tools
@pytest.mark.parametrize(
    ("name", "count"), [("sm_70", 12), ("sm_72", 12), ("sm_75", 7), ("sm_80", 23), ("sm_90", 31), ("sm_120", 28)]
)
def test_derived_mma_layouts_are_what_ptx_documents(name, count):
    row = arch(name)
    rows = [i for i in inventory.executed_by(32) if i.multiplies]
    found = derive(TOOLS, row, rows, lambda f: published().table(name, "sass", f))
    derived = [m for m in found.measurements if m.method == "derived"]
    assert len(derived) == count
    for m in derived:
        assert m.numbering.startswith(("memory addresses, through ", "PTX ISA, by the code's own arithmetic"))
        for f in inventory.instructions()[m.experiment].fragments:
            assert m.tables[f.operand] == ptx_isa.claim(f, row).meant, (m.experiment, f.operand)
            assert m.tables == published().measurement(name, "derived", m.experiment).tables


def test_copies_that_are_read_are_the_same_live_and_in_the_code():
    results, compared = published(), 0
    for experiment in results.experiments("sm_90", "sass"):
        code, live = (results.measurement("sm_90", method, experiment) for method in ("sass", "live"))
        if experiment.startswith("wmma.mma"):
            compared += 1
            assert code.unread == live.unread, experiment
    assert compared == 93  # the other three are emulated


@needs_tools
def test_a_word_that_is_computed_is_refused():
    row = arch("sm_90")
    s4 = inventory.instructions()["mma.m16n8k32.row.col.s32.s4.s4.s32"]
    code, _ = assemble(TOOLS, [tensor.kernel(s4)], row)
    with pytest.raises(UnreadError):
        tensor.trace(next(iter(code.values())), s4)


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("HMMA.16816.F32", (16, 8, 16, 4, 2, 4, 4, 1)),
        ("HMMA.1688.F16", (16, 8, 8, 2, 1, 2, 2, 1)),
        ("HMMA.1684.F32.TF32", (16, 8, 4, 2, 1, 4, 4, 1)),
        ("HMMA.884.F32.F32.ROW.COL", (8, 8, 4, 2, 2, 8, 8, 4)),
        ("HMMA.884.F32.F16.COL.COL", (8, 8, 4, 2, 2, 4, 8, 4)),
        ("HMMA.884.F16.F16.ROW.ROW", (8, 8, 4, 2, 2, 4, 4, 4)),
        ("IMMA.8832.S4.S4.ROW.COL", (8, 8, 32, 1, 1, 2, 2, 1)),
        ("IMMA.16832.U8.S8", (16, 8, 32, 4, 2, 4, 4, 1)),
        ("BMMA.168256.AND.POPC", (16, 8, 256, 4, 2, 4, 4, 1)),
        ("DMMA.8x8x4", (8, 8, 4, 2, 2, 4, 4, 1)),
        ("DMMA.884", (8, 8, 4, 2, 2, 4, 4, 1)),
    ],
)
def test_forms_of_opcodes(opcode, expected):
    assert dataclasses.astuple(tensor.form(opcode)) == expected


# bad tools


VERSION = 'case "$1" in --version) echo V12.9.86;;'


def fake(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


@pytest.mark.full
@needs_tools
@pytest.mark.skipif(sys.platform == "win32", reason="makes shell scripts")
@pytest.mark.parametrize(
    ("program", "text", "words", "code"),
    [
        ("ptxas", "echo garbage", "prints no version", 3),
        ("ptxas", "kill -9 $$", "the system has no more memory", 3),
        (
            "ptxas",
            'case "$1" in --version) echo V12.9.86;; --help) echo "\'sm_80\'";; *) echo dead >&2; exit 1;; esac',
            "dead",
            3,
        ),
        ("nvdisasm", f"{VERSION} *) echo garbage;; esac", "does not print the code", 3),
        ("ptxas", f"{VERSION} *) exit 0;; esac", "does not know sm_80", 2),
    ],
)
def test_bad_tools_give_a_clear_message(tmp_path, program, text, words, code):
    beside(tmp_path / program)
    fake(tmp_path / program, text)
    asked = ("wmma.m8n8k4.*", "--arch", "sm_80", "--method", "sass", "--cuda", tmp_path, "--results", tmp_path / "r")
    done = tcprobe("run", *asked, code=code)
    assert words in done.stderr
    assert not list((tmp_path / "r").rglob("*.json"))


@needs_tools
def test_a_tool_that_hangs_is_stopped():
    with pytest.raises(EnvironmentUnfitError, match=r"gave no answer within 0[.]5 s"):
        toolchain.call([shutil.which("sleep"), "20"], 0.5)


def test_missing_tools_say_where_was_looked(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setattr(toolchain, "WHEELS", ())
    with pytest.raises(EnvironmentUnfitError, match=r"ptxas was not found in .*cuda.* PATH"):
        toolchain.find()


# the command


@pytest.mark.full
@needs_tools
def test_run_without_a_gpu_reads_machine_code(tmp_path):
    done = tcprobe("run", "--arch", "sm_80", "--method", "sass", "--results", tmp_path)
    assert "(5 ldmatrix, 39 mma, 1 movmatrix, 75 wmma fragments, 96 wmma.mma)" in done.stdout
    assert TOOLS.name in done.stdout
    ours, theirs = Results(tmp_path), published()
    assert "documented only, 12 mma forms: no layout is known of a tensor-core opcode: " in done.stderr
    for m in ours.measurements("sm_80", "sass"):
        assert m.tables == theirs.measurement("sm_80", "sass", m.experiment).tables
    shown = tcprobe("show", "wmma.m16n16k16.d.f32", "--results", tmp_path).stdout
    assert "measured: sass, from machine code by ptxas" in shown
    assert "256 of 256" in shown
    tcprobe("compare", "--results", tmp_path)


@needs_tools
def test_what_ptxas_refuses_is_recorded_in_its_words(tmp_path):
    done = tcprobe("run", "wmma.m16n16k16.a.row.bf16", "--arch", "sm_75", "--method", "sass", "--results", tmp_path)
    assert "wmma.m16n16k16.a.row.bf16: Feature '.bf16'" in done.stdout


@needs_tools
def test_mma_cannot_be_read_from_machine_code(tmp_path):
    words = ("run", "mma.m16n8k8.row.col.f32.*", "--arch", "sm_80", "--method", "sass", "--results", tmp_path)
    assert "through" in tcprobe(*words, code=2).stderr


@pytest.mark.full
@needs_tools
def test_an_opcode_that_is_not_modelled_stops_its_probe_only(monkeypatch):
    monkeypatch.delitem(OPCODES, "MOVM.16.MT88")
    backend = Sass("sm_80", TOOLS)
    words = Counter()
    for experiment in MEMORY[:9]:
        launches = experiment.launches()
        backend.load(list({launch.kernel.name: launch.kernel for launch in launches}.values()))
        try:
            experiment.decode(launches, backend.run(launches))
            words["read"] += 1
        except ProbeError as error:
            words[str(error).split(", in")[0]] += 1
    assert words["read"] > 0
    assert words["not read: opcode MOVM.16.MT88 is not modelled"] > 0
