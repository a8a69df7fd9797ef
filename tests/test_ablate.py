"""`ablate`: what is patched away and what stays, rounds, launch files, and children that fault, hang or die."""

import json
import os
import re
import struct
import sys
from pathlib import Path

import emulated_bench
import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner
from json_samples import SCHEMA
from machine_code import TOOLS, needs_tools

import tcprobe
from tcprobe.cli import main
from tcprobe.errors import EnvironmentUnfitError, UsageError
from tcprobe.kernel.gemm import GemmOptions, gemm
from tcprobe.loops import bench, runs
from tcprobe.loops.iterations import Iterations, rounds
from tcprobe.loops.launch import Launch, LaunchError, launch_of
from tcprobe.loops.loop import LoopError, main_loop
from tcprobe.loops.patch import _roots, class_of, one_round, patched, patches
from tcprobe.sass.addresses import reaches
from tcprobe.sass.code_files import CodeFiles
from tcprobe.sass.decode import decode
from tcprobe.sass.disassemble import programs
from tcprobe.sass.elf import cubin
from tcprobe.sass.kernel import BYTES

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "examples")]  # behind tests, which have files of the same names
import micro_loops  # noqa: E402
import triton_launch  # noqa: E402
import wgmma_loops  # noqa: E402

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n, .param .u32 m, .param .u64 w) .maxntid 64, 1, 1 {
.reg .b32 %r<16>, %s, %i, %n, %m, %t; .reg .f32 %f<8>; .reg .b64 %a, %b, %w, %x; .reg .pred %p, %q;
.shared .align 16 .b8 tile[4096];
ld.param.u64 %a, [a];
ld.param.u32 %n, [n];
ld.param.u32 %m, [m];
ld.param.u64 %w, [w];
mov.u32 %t, %tid.x;
mov.u32 %s, tile;
mad.lo.u32 %s, %t, 16, %s;
ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%a];
mov.u32 %i, 0;
mov.u64 %x, 0;
"""
TAIL = """
st.global.v4.f32 [%a], {%f0, %f1, %f2, %f3};
ret;
}
"""
MMA = emulated_bench.MMA + ", {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};"
PRAGMA = 'LOOP: .pragma "nounroll";'
NEXT = "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra LOOP;"
# a score decides a way within the loop, as in attention; an index that is loaded decides an address
CHOOSING = f"{PRAGMA} {MMA} setp.gt.f32 %q, %f0, %f1; @%q bra SCALE; mul.f32 %f2, %f2, %f3; bra THERE; SCALE: \
ex2.approx.f32 %f2, %f3; st.shared.f32 [%s], %f2; THERE: {NEXT}"
GATHERING = f"{PRAGMA} ld.volatile.shared.u32 %r6, [%s]; cvt.u64.u32 %b, %r6; add.u64 %b, %a, %b; \
ld.volatile.global.u32 %r0, [%b]; st.volatile.shared.u32 [%s], %r0; ld.volatile.global.f32 %f4, [%a]; {MMA} \
add.f32 %f0, %f0, %f4; {NEXT}"
LEAVING = f"{PRAGMA} {MMA} setp.lt.f32 %q, %f0, %f1; add.u32 %i, %i, 1; @%q bra LOOP;"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A kernel of PTX with its cubin, made once; others that are named are disassembled together with it."""
    folder, kept = tmp_path_factory.mktemp("loops"), {}

    def make(text, *others):
        raws = {}
        for one in {text, *others} - kept.keys():
            path = folder / "k.ptx"
            path.write_text(one)
            (compiled,) = CodeFiles(TOOLS).read(path)
            raws[one] = compiled.raw
        if raws:
            kept.update(zip(raws, zip(raws.values(), kernels_of(raws.values()), strict=True), strict=True))
        return kept[text]

    return make


def kernels_of(raws):
    """The functions of cubins of one arch and function each, by one nvdisasm."""
    held = [cubin(raw) for raw in raws]
    return list(programs(TOOLS, held[0].arch, [function for each in held for function in each.functions]))


def kernel_of(raw):
    return kernels_of([raw])[0]


def body(text):
    return HEAD + text + TAIL


SAMPLES = {
    "loop": emulated_bench.PTX,
    "choosing": body(CHOOSING),
    "gathering": body(GATHERING),
    "wgmma": wgmma_loops.loop(64, 2),
    **{name: micro_loops.text(name, "sm_90") for name in ("shared-stores", "copies", "conversions", "barriers")},
}


@needs_tools
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.sampled(3)
def test_what_is_patched_reads_as_never_and_all_else_is_as_it_was(made, name, law):
    """No other byte differs; every address that is left, and which lanes take part, is what it was."""
    raw, kernel = made(SAMPLES[name], *(SAMPLES[params["name"]] for params in law))
    loop = main_loop(kernel)
    inside = {i.number for i in loop.instructions}
    every = [p for p in (*patches(loop), one_round(loop)) if p.off or p.never]
    codes = [patched(raw, kernel, patch) for patch in every]
    assert len(every) > 1
    reached = {reach.instruction.number: reach for reach in reaches(kernel)}
    for patch, code, after in zip(every, codes, kernels_of(codes), strict=True):
        changed = {*patch.off, *patch.never, *patch.expects}
        assert {(at - kernel.code.place) // BYTES for at in range(len(raw)) if raw[at] != code[at]} == changed
        for before, now in zip(kernel.instructions, after.instructions, strict=True):
            old, new = kernel.control(before.number), after.control(before.number)
            if before.number in patch.off:
                assert str(now) == "@never FFMA RZ, RZ, RZ, RZ"
                assert new == (old.stall, old.yields, None, None, old.waits, 0)
                assert before.number in inside
            else:
                assert old == new
                assert now.guard == ("never" if before.number in patch.never else before.guard)
                assert (now.opcode, now.operands) == (before.opcode, before.operands)
        for reach in reaches(after):
            old = reached[reach.instruction.number]
            if reach.instruction.guard != "never" and patch.name != "one round":
                assert (reach.address.known == old.address.known).all()
                same = [(at.xor_unknown, at.add_unknown, at.unknown) for at in (reach.address, old.address)]
                assert same[0] == same[1], (patch.name, reach.instruction)
                assert (reach.active == old.active).all()


def test_a_register_that_two_addresses_name_counts_once():
    form = decode("LDGSTS.E [R4], desc[UR6][R4.64]")
    assert _roots(form) == form.reads


@needs_tools
def test_data_that_choose_a_way_may_go_and_data_that_decide_addresses_stay(made):
    _, kernel = made(body(CHOOSING), body(GATHERING), body(LEAVING))
    loop = main_loop(kernel)
    off = {p.name: (len(p.off), p.all) for p in patches(loop)}
    assert sum(i.mnemonic == "BRA" for i in loop.instructions) > 1
    assert off["multiplies"] == off["special-functions"] == (1, 1)
    _, kernel = made(body(GATHERING))
    kept = {p.name: [kernel.instructions[n].opcode for n in p.off] for p in patches(main_loop(kernel))}
    assert kept["shared-loads"] == kept["shared-stores"] == []  # what is loaded there decides an address
    assert len(kept["copies"]) == 2
    leaving = {p.name: (len(p.off), p.all) for p in patches(main_loop(made(body(LEAVING))[1]))}
    assert leaving["multiplies"] == (0, 1)  # it decides whether the loop ends


@needs_tools
def test_copies_of_another_warp_go_with_the_bytes_that_are_waited_for(made):
    text = (
        HEAD.replace("maxntid 64", "maxntid 256")
        + (
            "setp.ge.u32 %q, %t, 128; @%q bra LOAD; "
            f"{PRAGMA} WAIT: mbarrier.try_wait.parity.shared.b64 %q, [%s], 0; @!%q bra WAIT; {MMA} {NEXT} bra END; "
            "LOAD: mbarrier.try_wait.parity.shared.b64 %q, [%s+8], 0; @!%q bra LOAD; "
            "mbarrier.arrive.expect_tx.shared.b64 %b, [%s], %m; "
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%a], 1024, [%s]; "
            "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra LOAD; END:"
        )
        + TAIL
    )
    raw, kernel = made(text)
    loop = main_loop(kernel)
    (copies,) = [p for p in patches(loop) if p.name == "copies"]
    assert [kernel.instructions[n].mnemonic for n in copies.off] == ["UBLKCP"]
    assert copies.off[0] not in {i.number for i in loop.instructions}
    after = kernel_of(patched(raw, kernel, copies))
    assert [str(after.instructions[n]).rpartition(", ")[2] for n in copies.expects] == ["RZ"]
    assert len(copies.expects) == 1
    single = one_round(loop)
    assert len(single.never) + len(single.always) == 2  # the loop of those that load ends too


@needs_tools
def test_rounds_are_those_that_the_launch_says(made):
    def counted(text, *values, block=(64, 1, 1)):
        parameters = struct.pack("<QIIQ", 1 << 20, *values)
        return rounds(main_loop(made(text)[1]), block, (1, 1, 1), parameters)

    plain = body(f"{PRAGMA} {MMA} {NEXT}")
    divided, signed = (body(f"div.{kind} %n, %n, %m; {PRAGMA} {MMA} {NEXT}") for kind in ("u32", "s32"))
    outer = body(f"mov.u32 %r7, 0; OUTER: mov.u32 %i, 0; {PRAGMA} {MMA} {NEXT} add.u32 %r7, %r7, 1; "
                 "setp.lt.u32 %p, %r7, %m; bar.sync 0; @%p bra OUTER;")  # fmt: skip
    loaded = body(f"ld.global.u32 %n, [%a]; {PRAGMA} {MMA} {NEXT}")
    none = body(f"setp.eq.u32 %q, %n, 0; @%q bra END; {PRAGMA} {MMA} {NEXT} END:")
    made(plain, divided, signed, outer, loaded, none)
    assert [counted(plain, n, 0, 0).begun for n in (1, 2, 77)] == [1, 2, 77]
    for n, m in ((1000, 7), (4096, 64), (2**31 + 5, 2**25 + 3), (12345, 12345)):
        assert counted(divided, n, m, 0).begun == n // m
    assert counted(signed, 4000, 33, 0).begun == 4000 // 33
    assert counted(outer, 5, 3, 0) == Iterations(15, 3)
    with pytest.raises(LoopError, match="depends on"):
        counted(loaded, 1, 1, 0)
    with pytest.raises(LoopError, match="no warp"):
        counted(none, 0, 1, 0)


def launched(tmp_path, text, sizes=(8, 4)):
    path = tmp_path / "launch.py"
    path.write_text("import numpy as np\nimport ctypes\n" + text)
    return launch_of(path, "loop", sizes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("return 1, 64, 0", "gives tuple of 3"),
        ("return None", "gives NoneType"),
        ("return 1, 64, 0, 7", "arguments: int where a list"),
        ("return 0, 64, 0, [0, 1]", "grid 0"),
        ("return 1.5, 64, 0, [0, 1]", "grid 1.5"),
        ("return (1, 1, 1, 1), 64, 0, [0, 1]", "grid: tuple of 4"),
        ("return 1, (64, 32), 0, [0, 1]", "at most 1024 threads"),
        ("return 1, 64, -1, [0, 1]", "shared bytes -1"),
        ("return 1, 64, True, [0, 1]", "shared bytes True"),
        ("return 1, 64, 0, [0]", "1 arguments; loop takes 2"),
        ("return 1, 64, 0, [np.int32(0), 1]", "argument 0, int32, has 4 bytes; the parameter has 8"),
        ("return 1, 64, 0, [0, np.zeros(4)]", "argument 1, ndarray, has 8 bytes; the parameter has 4"),
        ("return 1, 64, 0, [0, 1 << 40]", "does not fit a parameter of 4 bytes"),
        ("return 1, 64, 0, [0, 'x']", "argument 1: str is no array"),
        ("return 1, 64, 0, [object(), 1]", "argument 0: object is no array"),
        ("return 1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_launch_that_cannot_be_is_said(tmp_path, given, said):
    with pytest.raises(LaunchError, match=re.escape(said)):
        launched(tmp_path, f"def launch(kernel):\n    {given}\n")
    assert LaunchError.exit_code == 1


def test_launch_files_that_are_none(tmp_path):
    with pytest.raises(UsageError, match="no function launch"):
        launched(tmp_path, "launch = 3\n")
    with pytest.raises(UsageError, match="no such file"):
        launch_of(tmp_path / "no.py", "loop", None)
    with pytest.raises(LaunchError, match="SyntaxError"):
        launched(tmp_path, "def\n")
    with pytest.raises(LaunchError, match="ROUNDS 1"):
        launched(tmp_path, "ROUNDS = 1\ndef launch(kernel):\n    return 1, 64, 0, [0, 1]\n")
    with pytest.raises(EnvironmentUnfitError):
        launched(tmp_path, "from tcprobe.errors import EnvironmentUnfitError\nraise EnvironmentUnfitError('no CuPy')\n")


def test_arguments_get_the_bytes_of_their_parameters(tmp_path):
    text = """
class Word(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint16)]
def launch(kernel):
    assert kernel == "loop"
    return (2, 3), (32, 2), 16, [None, -1, 0.5, 0.5, True, np.float16(1), b"12345", Word(7), np.uint64(9), 1 << 63]
"""
    found = launched(tmp_path, "ROUNDS = np.int64(9)\n" + text, (8, 4, 4, 8, 1, 2, 5, 2, 8, 8))
    assert found[:3] == ((2, 3, 1), (32, 2, 1), 16)
    assert found.rounds == 9
    wanted = [
        bytes(8),
        b"\xff" * 4,
        struct.pack("<f", 0.5),
        struct.pack("<d", 0.5),
        b"\1",
        b"\0\x3c",
        b"12345",
        b"\7\0",
    ]
    assert list(found.arguments) == [*wanted, struct.pack("<Q", 9), struct.pack("<Q", 1 << 63)]


def ablated(folder, *words):
    """What the command gives for the emulated loop."""
    loop, launch = emulated_bench.written(folder)
    return CliRunner().invoke(main, ["ablate", str(loop), "--launch", str(launch), *words])


@needs_tools
def test_cycles_are_those_that_the_emulated_gpu_takes(tmp_path, monkeypatch):
    emulated_bench.shows(monkeypatch)
    found = json.loads(ablated(tmp_path, "--json").stdout)
    jsonschema.validate(found, json.loads(SCHEMA.read_text())["$defs"]["ablate"])
    cost = emulated_bench.COST
    wanted = {"multiplies": cost["HMMA"], "shared-loads": 2 * cost["LDSM"], "copies": cost["LDGSTS"], "fp32": 1}
    wanted |= {"special-functions": cost["MUFU"], "barriers": cost["BAR"]}
    saved = {name: found["cycles"] - cycles for name, cycles in found["without"].items() if cycles is not None}
    assert saved == wanted
    assert (found["rounds"], found["device"], found["note"]) == (emulated_bench.ITERATIONS, "an emulated GPU", "")
    assert {name for name, cycles in found["without"].items() if cycles is None} == set(found["failed"])


@needs_tools
def test_a_class_that_faults_or_dies_costs_its_own_line(tmp_path, monkeypatch):
    emulated_bench.shows(monkeypatch, MUFU="faults", LDSM="dies", FFMA="refused")
    done = ablated(tmp_path)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert any(line.startswith("multiplies") and line.endswith("1 of 1") for line in lines)
    assert "special-functions: without 1 of 1 the kernel faults" in lines
    assert "fp32: without 1 of 1 the kernel is refused" in lines
    assert "shared-loads: without 2 of 2 the kernel ended its process, or gave no answer" in lines
    assert lines[-1] == "largest saving: barriers"


def test_a_process_that_is_silent_is_ended(monkeypatch):
    text = 'import os, time; print(\'{"at": "whole", "pid": %d}\' % os.getpid(), flush=True); time.sleep(3600)'
    monkeypatch.setattr(runs, "COMMAND", (sys.executable, "-S", "-c", text))
    monkeypatch.setattr(runs, "PATIENCE", 0.2)
    ((_, pid),) = [message.values() for message in runs.messages({})]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@needs_tools
def test_the_user_is_told_what_is_wrong_with_a_launch(tmp_path, monkeypatch):
    emulated_bench.shows(monkeypatch)
    (tmp_path / "bad.py").write_text("print('said')\ndef launch(kernel):\n    return 1, 64, 0, []\n")
    loop, launch = emulated_bench.written(tmp_path)
    command = ["ablate", str(loop), "--launch"]
    done = CliRunner().invoke(main, [*command, str(tmp_path / "bad.py")])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Error: 0 arguments; loop takes 3.\n"
    for words, code, said in (
        (["no.py"], 2, "there is no such file"),
        ([str(launch), "--kernel", "none"], 2, "no function is named none"),
        ([str(launch), "--loop", "loop"], 2, "an address such as 0x680"),
        ([str(launch), "--loop", "0x0"], 4, "no loop is around 0x0"),
    ):
        done = CliRunner().invoke(main, [*command, *words])
        assert (done.exit_code, said in done.stderr) == (code, True), done.stderr
    (tmp_path / "x.cubin").write_bytes(b"\x7fELF" + bytes(90))
    done = CliRunner().invoke(main, ["ablate", str(tmp_path / "x.cubin"), "--launch", str(launch)])
    assert (done.exit_code, len(done.stderr.splitlines())) == (4, 1)


def test_kernel_gemm_writes_how_it_is_launched(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("tcprobe.kernel.products.launch", lambda made, size: seen.append((made, size)) or "launched")
    for options in (
        GemmOptions("sm_80", "s8", (128, 128, 64), (2, 4), 2, "row", "col", "s32", "mine"),
        GemmOptions("sm_90", "bf16", cluster=2),
        GemmOptions("sm_90", "f16", multiply="mma"),
        GemmOptions("sm_100", "bf16", cta_group=2),
    ):
        made = gemm(options)
        names = {}
        exec(compile(made.launch_file(), "launch.py", "exec"), names)
        assert names["launch"](made.name) == "launched"
        rows, cols, depth = made.gemm.tile
        assert (seen[-1][0].source, seen[-1][1]) == (made.source, (rows * made.cluster, cols, 64 * depth))
    path = tmp_path / "l.py"
    words = ["kernel", "gemm", "--arch", "sm_80", "--type", "f16", "--size", "128x256x512", "--launch", str(path)]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert "SIZE = (128, 256, 512)" in path.read_text()


@needs_tools
def test_a_launch_file_for_a_kernel_of_tritons(made, tmp_path):
    raw, _ = made(emulated_bench.PTX)
    about = {"name": "loop", "num_warps": 2, "shared": 512}
    text = triton_launch.launch_file(about, raw, ["bf16:4x8", "f16:16"], (1, 2))
    (tmp_path / "l.py").write_text(text)
    found = launch_of(tmp_path / "l.py", "loop", (8, 8, 8))
    assert found[:3] == ((1, 2, 1), (64, 1, 1), 512)
    assert [(a.dtype, a.shape) for a in found.arguments[:2]] == [(np.uint16, (4, 8)), (np.float16, (16,))]
    assert found.arguments[2] == bytes(8)  # scratch memory
    for bad in (["f16:4", "1", "2", "3"], ["x"], ["f99:3", "1", "2"], ["1e3f", "1", "2"]):
        with pytest.raises(ValueError, match=r"takes|needed"):
            triton_launch.launch_file(about, raw, bad)


def test_each_sm_writes_its_counter_and_the_time():
    """In the emulator, where a block is an SM: both behind the cycles that it is to wait."""
    launch = {"grid": [5], "block": [1], "arguments": [np.zeros((8, 2), np.uint64), {"u64": 300}]}
    done = tcprobe.emulate(bench.TICK, launch=launch)
    assert (done.finished, done.findings) == (True, [])
    counts = np.asarray(done.arrays[0]).reshape(8, 2)
    assert (counts[:5] >= 300).all()
    assert not counts[5:].any()


@needs_tools
def test_the_clock_assembles_and_its_bound_is_of_stalls(made, tmp_path):
    raw, kernel = made(bench.TICK)
    assert kernel.name == "tick"
    assert isinstance(Launch((1, 1, 1), (1, 1, 1), 0, ()), Launch)
    code, loop = micro_loops.loop_of("fp32", "sm_90", tmp_path)
    assert micro_loops.bound(loop) >= 4 * 64
    assert {class_of(i) for i in loop.instructions} >= {"fp32"}
    assert code[:4] == raw[:4]


def test_the_table_of_loops_is_that_of_the_page(tmp_path):
    """Every row of docs/ablate.md, from lines as the benchmark writes them."""
    page = (ROOT / "docs" / "ablate.md").read_text().splitlines()
    at = page.index("| a round | whole | `@!PT` | patched away | bound |")
    rows = page[at : page.index("", at)]
    names = {words: name for name, words in micro_loops.ROUND.items()}
    assert set(micro_loops.ROUND) == set(micro_loops.BODIES)
    files = [tmp_path / "away.jsonl", tmp_path / "guarded.jsonl"]
    for path, column in zip(files, (2, 1), strict=True):
        with path.open("w") as file:
            for words, *texts in (row.strip("| ").split(" | ") for row in rows[2:]):
                name, cycles = names[words], [float(text) for text in texts]
                row = {"class": name, "cycles": cycles[0], "without": {name: cycles[column]}, "bound": cycles[3]}
                file.write(json.dumps(row) + "\n")
    assert list(micro_loops.table(*files)) == rows
