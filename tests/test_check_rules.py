"""The rules on correctness: their examples, the loops that compilers get wrong, right kernels, and mutants of them."""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import nvrtc
import pytest

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))  # behind tests, which have files of the same names
import check_kernels
import check_rules
import wgmma_loops
from check_mutants import KINDS
from life_ranges import life_ranges
from machine_code import TOOLS, needs_tools
from sampling import TOGETHER

import tcprobe
from tcprobe.check.rule import rules
from tcprobe.sass import frame, toolchain
from tcprobe.sass.decode import decode
from tcprobe.sass.disassemble import programs
from tcprobe.sass.elf import cubin
from tcprobe.sass.kernel import target
from tcprobe.sass.registers import names

pytestmark = [needs_tools, pytest.mark.skipif(sys.platform == "win32", reason="the tools' wheels differ")]
DOCS = Path(__file__).parent.parent / "docs"
ERRORS = [name for name, rule in rules().items() if rule.SEVERITY == "error"]
WRONG = [*ERRORS, "cp-async-proxy"]  # which is wrong by PTX's text
MENDED = (13, 3)  # the first ptxas that keeps A's registers until the wait


def compiled(folder, text, ptxas=TOOLS and TOOLS.ptxas):
    """(arch, function) of a PTX text with one kernel; it stays in `folder`."""
    source, made = folder / "text.ptx", folder / "text.cubin"
    source.write_text(text)
    arch = next(line.split()[1] for line in text.splitlines() if line.startswith(".target"))
    subprocess.run([ptxas, "-arch", arch, str(source), "-o", str(made)], check=True, capture_output=True)
    code = cubin(made.read_bytes())
    (function,) = code.functions
    return code.arch, function


def graphs(asked):
    """The kernel of each (PTX text, ptxas), as a graph: nvdisasm, which is slow to start, runs once for an arch."""
    with TemporaryDirectory() as folder:
        made = {key: compiled(Path(folder), *key) for key in dict.fromkeys(asked)}
    found = {}
    for arch in {arch for arch, _ in made.values()}:
        keys = [key for key, (own, _) in made.items() if own == arch]
        found |= zip(keys, programs(TOOLS, arch, [made[key][1] for key in keys]), strict=True)
    return found


@cache
def together():
    """The kernels of this file, but for those that a test makes in hundreds of ways."""
    return graphs((text, TOOLS.ptxas) for text in every_text())


def assembled(text):
    """The one kernel of a PTX text of this file, as a graph."""
    return together()[text, TOOLS.ptxas]


def errors(kernel, rule):
    return [finding for finding in rules()[rule].check(kernel) if finding.severity == rules()[rule].SEVERITY]


@pytest.mark.parametrize("rule", WRONG)
def test_the_example_that_fails_fails_and_the_other_passes(rule):
    """So do those of other rules, where they are no examples of this one."""
    fails, passes = (assembled(text) for text in (rules()[rule].FAILS, rules()[rule].PASSES))
    assert errors(fails, rule)
    for other in WRONG:
        assert not errors(passes, other)
        assert other == rule or not errors(fails, other)


def test_every_rule_says_why():
    for rule in rules().values():
        assert rule.EVIDENCE
        assert rule.SAYS
        assert rule.FIX


SIZES = [(n, each) for n in wgmma_loops.SIZES for each in range(1, wgmma_loops.MOST_EACH + 1)]


@cache
def loops(sizes):
    """Loops over multiplies, and those that keep A until the wait, by every ptxas that is here."""
    texts = [wgmma_loops.loop(n, each, early=early) for n, each in sizes for early in (True, False)]
    return graphs((text, ptxas) for ptxas in toolchain.compilers() for text in texts)


@pytest.mark.sampled(96)
@pytest.mark.parametrize(("n", "each"), SIZES)
def test_legal_loops_that_a_compiler_gets_wrong(n, each, law):
    """By every ptxas that is here: found in what those before 13.3 make, nothing in what others make."""
    taken = [(own["n"], own["each"]) for own in law]
    first = taken.index((n, each)) // TOGETHER * TOGETHER
    made = loops(tuple(taken[first : first + TOGETHER]))
    for ptxas in toolchain.compilers():
        version = tuple(int(part) for part in toolchain.version(ptxas).split(".")[:2])
        found = errors(made[wgmma_loops.loop(n, each), ptxas], "wgmma-operands")
        assert bool(found) == (version < MENDED), ptxas
        for finding in found:
            assert finding.numbers["register"] < 255
        safe = wgmma_loops.loop(n, each, early=False)
        assert not errors(made[safe, ptxas], "wgmma-operands")


@cache
def right_kernels():
    """Kernels that `kernel gemm` writes and those of the benchmarks, as graphs."""
    library = nvrtc.library()
    found = []
    for arch, kind in (("sm_90", "bf16"), ("sm_80", "f16")):
        text = tcprobe.kernel(arch, kind).source
        option = f"-arch={arch}a" if arch == "sm_90" else f"-arch={arch}"
        made = nvrtc.made(library, text, option, "-std=c++17") if library else b""
        if made:
            code = cubin(made)
            found += programs(TOOLS, code.arch, code.functions, f"gemm {arch} {kind}")
    return found


def test_right_kernels_have_no_error():
    assert len(right_kernels()) == 2
    for kernel in right_kernels():
        assert kernel.blocks
        for rule in WRONG:
            assert errors(kernel, rule) == [], (kernel.name, rule)


MENDED_KERNELS = {
    "st": check_kernels.multiply("kernel", 64, "st", True),
    "cp.async": check_kernels.multiply("kernel", 64, "cp.async", True),
    "out": check_kernels.copy_out("kernel", True),
    "in": check_kernels.copy_in("kernel", True),
    "whole": check_kernels.half_warp("kernel", True),
    "swizzled": check_kernels.multiply("kernel", 64, "st", True, check_kernels.SWIZZLED),
}
BROKEN = {
    "async-proxy": [
        check_kernels.multiply("kernel", 64, "st", False),
        check_kernels.copy_out("kernel", False),
    ],
    "cp-async-proxy": [check_kernels.multiply("kernel", 64, "cp.async", False)],
    "unfinished-copy": [check_kernels.copy_in("kernel", False)],
    "partial-warp": [check_kernels.half_warp("kernel", False)],
    "wgmma-shared": [check_kernels.refill("kernel", 64, fill) for fill in ("st", "cp.async")],
    "descriptor": [check_kernels.multiply("kernel", 64, "st", True, check_kernels.OVERLAPPING)],
}


@pytest.mark.parametrize("name", MENDED_KERNELS)
def test_mended_kernels_of_the_benchmark_have_no_error(name):
    kernel = assembled(MENDED_KERNELS[name])
    assert [rule for rule in WRONG if errors(kernel, rule)] == []


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_kernels_of_the_benchmark_break_their_rule_alone(rule):
    for text in BROKEN[rule]:
        kernel = assembled(text)
        assert [name for name in WRONG if errors(kernel, name)] == [rule]


SAFE = wgmma_loops.loop(64, 2, early=False)


@pytest.mark.parametrize("kind", KINDS)
def test_mutants_are_found(kind, sample):
    """At least 95 of 100 of those that break something, over all kinds; what breaks nothing says why.

    A rule on speed finds them where it does not warn of the right kernel too.
    """
    _, make = KINDS[kind]
    kernels = [*right_kernels(), assembled(SAFE)]
    kernels += [assembled(MENDED_KERNELS[name]) for name in ("cp.async", "swizzled")]
    every = [(kernel, mutant) for kernel in kernels for mutant in make(kernel)]
    outcomes = [check_rules.outcome(kernel, kind, mutant) for kernel, mutant in sample(every, 25)]
    missed, found = outcomes.count("missed"), outcomes.count("found")
    assert every
    assert missed <= max((found + missed) // 8, 0) or kind in MISSED, (kind, missed, found)


# kinds of which a part cannot be decided, with the reason
MISSED = {
    "the barrier behind a wait for cp.async dropped": "in loops over a ring of tiles addresses do not follow",
}


# of divisions ptxas makes IMAD.HI, whose addend is a pair; IMAD.WIDE and carries of 64 bits
DIVISIONS = """.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u32 by, .param .u64 far) {
.reg .b32 %r<6>; .reg .b64 %d<5>;
ld.param.u64 %d0, [out]; ld.param.u32 %r0, [by]; ld.param.u64 %d1, [far]; mov.u32 %r1, %tid.x;
div.u32 %r2, %r1, %r0; rem.u32 %r3, %r1, %r0; div.s32 %r4, %r1, %r0; mad.hi.u32 %r5, %r1, %r0, %r4;
mul.wide.u32 %d2, %r2, 4; add.u64 %d2, %d2, %d0; mul.lo.u64 %d3, %d1, %d2; div.u64 %d4, %d3, %d1;
mad.hi.u64 %d3, %d4, %d1, %d2;
st.global.u32 [%d2], %r3; st.global.u32 [%d2+4], %r4; st.global.u32 [%d2+8], %r5; st.global.u64 [%d0], %d3;
ret;
}
"""


def test_registers_are_those_of_nvdisasms_life_ranges(tmp_path):
    """Calls apart, of which nvdisasm counts all that the routine touches. Of what older ptxas make it draws none."""
    newer = [p for p in toolchain.compilers() if int(toolchain.version(p).partition(".")[0]) >= 13]
    if not newer:
        pytest.skip("no ptxas 13")
    compared = 0
    for text in (wgmma_loops.loop(16, 2), check_kernels.copy_in("kernel", True), DIVISIONS):
        compiled(tmp_path, text, newer[0])
        for listed, reads, writes in life_ranges(TOOLS.nvdisasm, tmp_path / "text.cubin"):
            form = decode(listed.partition("`")[0])
            if form.mnemonic not in ("CALL", "RET"):
                assert (names(form.reads), names(form.writes)) == (names(reads), names(writes)), listed
                compared += 1
    assert compared > 100


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("@!P0 LDS.128 R28, [R3+UR4+0x10]", "R3 UR4 P0", "R28 R29 R30 R31"),
        (
            "HGMMA.64x8x16.F32.BF16 R24, R92, gdesc[UR4], R24, gsb0",
            "R24 R25 R26 R27 R92 R93 R94 R95 UR4 UR5 UR6 UR7",
            "R24 R25 R26 R27",
        ),
        ("IMAD.WIDE.U32 R2, R7, 0x4, R4", "R4 R5 R7", "R2 R3"),
        ("IMAD.HI.U32 R2, R7, R8, R4", "R4 R5 R7 R8", "R2"),
        ("UIMAD.WIDE UR2, UR7, UR8, UR4", "UR4 UR5 UR7 UR8", "UR2 UR3"),
        ("IADD3 R6, P0, R3, 0x2, RZ", "R3", "R6 P0"),
        ("STG.E.64 desc[UR8][R4.64+0x8], R2", "R2 R3 R4 R5 UR8 UR9", ""),
        ("LOP3.LUT P0, RZ, R0, 0x7f, RZ, 0xc0, !PT", "R0", "P0"),
        ("@!PT LDS RZ, [RZ]", "", ""),
        ("F2F.F64.F32 R2, R4", "R4", "R2 R3"),
        ("DADD R2, R4, -R6", "R4 R5 R6 R7", "R2 R3"),
    ],
)
def test_what_instructions_read_and_write(text, reads, writes):
    form = decode(text)
    assert (sorted(names(form.reads)), sorted(names(form.writes))) == (sorted(reads.split()), sorted(writes.split()))


LOOP = """.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [out]; ld.param.u32 %r0, [n]; mov.u32 %r1, 0;
ROUND:
  .pragma "nounroll";
  ld.global.u32 %r2, [%d0]; add.u32 %r1, %r1, %r2; sub.u32 %r0, %r0, 1;
  setp.ne.u32 %p, %r0, 0; @%p bra ROUND;
  st.global.u32 [%d0], %r1;
  ret;
}"""


def test_the_graph_of_a_loop():
    kernel = assembled(LOOP)
    (loop,) = kernel.loops
    (back,) = [i for i in kernel.instructions if i.mnemonic == "BRA" and i.guard]
    assert kernel.block_of[back.number] in loop
    assert kernel.block_of[target(back)] in loop
    assert kernel.unfollowed == []
    for number, block in enumerate(kernel.blocks):
        for after in block.after:
            assert number in kernel.before[after]
        for index in range(block.first, block.end - 1):
            assert kernel.successors[index] == (index + 1,)


def test_measured_numbers_are_those_of_the_file():
    """Each number of docs/checks_h200.json that a rule's evidence or the notes have stands there."""
    saved = json.loads((DOCS / "checks_h200.json").read_text())
    there = {f"{row[key]:,}" for row in saved["experiments"] for key in ("words", "least_wrong", "most_wrong")}
    notes = (DOCS.parent / "benchmarks" / "notes" / "check.md").read_text()
    page = notes.partition("| rule | kernel |")[2].partition("\n\n")[0]
    texts = [page, *(each for name in ERRORS for each in rules()[name].EVIDENCE if "checks_h200" in each)]
    numbers = {number for text in texts for number in re.findall(r"[0-9]{1,3}(?:,[0-9]{3})+", text)}
    assert len(numbers) > 20
    assert numbers <= there
    assert all(row["found"] > 0 for row in saved["experiments"] if row["case"] == "breaks")
    assert not any(row["found"] or row["most_wrong"] for row in saved["experiments"] if row["case"] == "mended")


DOUBLE_BUFFER = """.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out, .param .u32 n) <threads> {
  .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %d<4>;
  .shared .align 16 .b8 tile[4096];
  ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; ld.param.u32 %r9, [n];
  mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; cvt.u64.u32 %d2, %r1; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
  mov.u32 %r2, tile; add.u32 %r3, %r2, %r1;
  xor.b32 %r1, %r1, 16; add.u32 %r8, %r2, %r1;
  cp.async.cg.shared.global [%r3], [%d0], 16; cp.async.commit_group;
LOOP:
  cp.async.cg.shared.global [%r3+2048], [%d0+2048], 16; cp.async.commit_group;
  cp.async.wait_group <left>; bar.sync 0;
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r8]; st.global.v4.u32 [%d1], {%r4, %r5, %r6, %r7};
  bar.sync 0;
  cp.async.cg.shared.global [%r3], [%d0+4096], 16; cp.async.commit_group;
  cp.async.wait_group <left>; bar.sync 0;
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r8+2048]; st.global.v4.u32 [%d1+2048], {%r4, %r5, %r6, %r7};
  bar.sync 0;
  sub.u32 %r9, %r9, 1; setp.ne.u32 %p, %r9, 0; @%p bra LOOP;
  ret;
}"""


SHAPES = ("", ".maxntid 128", ".reqntid 128")


def double_buffer(threads, left):
    return DOUBLE_BUFFER.replace("<threads>", threads).replace("<left>", left)


@pytest.mark.parametrize("threads", SHAPES)
def test_two_stages_of_copies_by_a_block_of_any_size(threads):
    """A block of more than 128 threads would copy over the next stage; that none states its size is no error."""
    found = list(rules()["unfinished-copy"].check(assembled(double_buffer(threads, "1"))))
    assert [finding.severity for finding in found] == ([] if threads else ["note"])
    assert errors(assembled(double_buffer(threads, "2")), "unfinished-copy")


GUARDED = """.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u32 n) {
  .reg .pred %p, %q; .reg .b32 %r<10>; .reg .b64 %d<4>;
  .shared .align 16 .b8 tile[2048];
  ld.param.u64 %d0, [out]; ld.param.u32 %r8, [n];
  mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.u32 %r2, tile; and.b32 %r1, %r1, 2032; add.u32 %r2, %r2, %r1;
  mul.wide.u32 %d1, %r0, 4; add.u64 %d1, %d0, %d1; mov.u32 %r9, %r0;
LOOP:
  st.shared.u32 [%r2], %r9; add.u32 %r9, %r9, 1; setp.lt.u32 %q, %r9, %r8; @%q bra LOOP;
  bar.sync 0; mov.u32 %r4, 0;
  <condition>
  @%p ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r2];
  st.global.u32 [%d1], %r4;
  ret;
}"""
CONDITIONS = {
    "and.b32 %r3, %r0, 31; setp.lt.u32 %p, %r3, 16;": "error",
    "ld.global.u32 %r3, [%d1]; setp.lt.u32 %p, %r3, 16;": "note",
    "setp.lt.u32 %p, %r0, 64;": None,
    "setp.lt.u32 %p, %r8, 64;": None,
}


def guarded(condition, threads=""):
    text = GUARDED.replace("param .u32 n) {", f"param .u32 n) {threads} {{") if threads else GUARDED
    return text.replace("<condition>", condition)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_guards_behind_a_loop_that_lanes_leave_one_by_one(condition):
    kernel = assembled(guarded(condition))
    found = list(rules()["partial-warp"].check(kernel))
    assert [finding.severity for finding in found] == ([CONDITIONS[condition]] if CONDITIONS[condition] else [])


ROW = "mov.u32 %r3, %tid.y; setp.eq.u32 %p, %r3, 0;"
WIDTHS = {"": "note", ".reqntid 32, 4": None, ".reqntid 16, 8": "error"}


@pytest.mark.parametrize(("threads", "severity"), WIDTHS.items())
def test_a_row_of_a_block_whose_width_nothing_states(threads, severity):
    found = list(rules()["partial-warp"].check(assembled(guarded(ROW, threads))))
    assert [finding.severity for finding in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("STL [R1], R4", range(1)),
        ("LDL.LU.64 R2, [R1+0x8]", range(2, 4)),
        ("STL.128 [R1+0x10], R4", range(4, 8)),
        ("STL.U8 [R1], R4", None),
        ("LDL.S16 R4, [R1+0x4]", None),
        ("STL [R2], R4", None),
        ("STL [R1+-0x4], R4", None),
        ("STL [R1+0x2], R4", None),
    ],
)
def test_words_of_the_stack_that_a_spill_is_about(text, words):
    found = frame.slots(decode(text))
    assert found == (None if words is None else range(frame.SLOTS + words.start, frame.SLOTS + words.stop))


EXITS = {
    "and.b32 %r3, %r0, 31; setp.ge.u32 %p, %r3, 20;": "error",  # with certainty
    "mov.u32 %r3, %ctaid.x; mad.lo.u32 %r3, %r3, 128, %r0; setp.ge.u32 %p, %r3, %r8;": "note",  # if (i >= n) return
    "setp.ge.u32 %p, %r0, 64;": None,  # whole warps
    "mov.u32 %r3, %ctaid.x; setp.ge.u32 %p, %r3, %r8;": None,  # the whole block
}


def left_early(condition):
    return guarded(f"{condition} @%p exit;").replace("@%p ldmatrix", "ldmatrix")


@pytest.mark.parametrize("condition", EXITS)
def test_lanes_that_end_before_an_instruction_of_the_whole_warp(condition):
    found = list(rules()["partial-warp"].check(assembled(left_early(condition))))
    assert [finding.severity for finding in found] == ([EXITS[condition]] if EXITS[condition] else [])
    assert all("EXIT" in finding.text or finding.severity == "error" for finding in found)


THROUGH_GLOBAL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 p, .param .u64 out) .maxntid 128 {
  .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %d<6>;
  .shared .align 128 .b8 tile[2048]; .shared .align 8 .b64 bar;
  ld.param.u64 %d0, [p]; ld.param.u64 %d3, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 16;
  add.u64 %d2, %d0, %d1; add.u64 %d3, %d3, %d1; add.u64 %d4, %d0, 4096;
  mov.u32 %r1, tile; mov.u32 %r2, bar; setp.ne.u32 %p, %r0, 0;
  @!%p mbarrier.init.shared.b64 [%r2], 1;
  st.global.v4.u32 [%d2], {%r0, %r0, %r0, %r0};
  <fence> bar.sync 0;
  @%p bra B;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 2048;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [<from>], 2048, [%r2];
B:
  mbarrier.try_wait.parity.shared.b64 %p, [%r2], 0; @!%p bra B;
  shl.b32 %r3, %r0, 4; add.u32 %r3, %r3, %r1; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];
  st.global.v4.u32 [%d3], {%r4, %r5, %r6, %r7};
  ret;
}"""


COPIES = (
    ("", "%d0", True),
    ("fence.proxy.async.shared::cta;", "%d0", True),
    ("fence.proxy.async.global;", "%d0", False),
    ("fence.proxy.async;", "%d0", False),
    ("", "%d4", False),  # behind what was stored
    ("", "%d3", False),  # of another parameter
)


def through_global(fence, source):
    return THROUGH_GLOBAL.replace("<fence>", fence).replace("<from>", source)


@pytest.mark.parametrize(("fence", "source", "wrong"), COPIES)
def test_a_bulk_copy_of_global_memory_that_was_stored(fence, source, wrong):
    assert bool(errors(assembled(through_global(fence, source)), "async-proxy")) == wrong


RING = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out, .param .u32 steps) .reqntid 128 {
  .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %d<6>; .reg .f32 %f<4>;
  .shared .align 1024 .b8 tile[<bytes>];
  ld.param.u64 %d1, [in]; ld.param.u64 %d3, [out]; ld.param.u32 %r0, [steps];
  mov.u32 %r1, %tid.x; shl.b32 %r3, %r1, 4; mov.u32 %r2, tile; and.b32 %r2, %r2, 262143; add.u32 %r3, %r3, %r2;
  mul.wide.u32 %d2, %r1, 16; add.u64 %d1, %d1, %d2; add.u64 %d3, %d3, %d2; mov.u32 %r4, 0;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
STEP:
  .pragma "nounroll";
  mad.lo.u32 %r5, %r4, 2048, %r3;
  cp.async.cg.shared.global [%r5], [%d1], 16; cp.async.commit_group; cp.async.wait_group 0;
  fence.proxy.async.shared::cta; bar.sync 0;
  mad.lo.u32 %r6, %r4, 2048, %r2; shr.u32 %r6, %r6, 4; cvt.u64.u32 %d0, %r6; or.b64 %d0, %d0, 0x1000080000;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d0, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned <left>; bar.sync 0;
  add.u32 %r4, %r4, 1; setp.eq.u32 %p, %r4, <stages>; selp.b32 %r4, 0, %r4, %p;
  add.u64 %d1, %d1, 2048; sub.u32 %r0, %r0, 1; setp.ne.u32 %p, %r0, 0; @%p bra STEP;
  wgmma.wait_group.sync.aligned 0;
  st.global.v4.f32 [%d3], {%f0, %f1, %f2, %f3};
  ret;
}"""


RINGS = [(s, n) for s in (1, 2, 3, 4) for n in (0, 1, 2, 3, 4) if n <= s]


def ring(stages, left):
    return RING.replace("<stages>", str(stages)).replace("<left>", str(left)).replace("<bytes>", str(2048 * stages))


@pytest.mark.parametrize(("stages", "left"), RINGS)
def test_a_ring_of_stages_is_free_when_so_few_groups_run(stages, left):
    """A step fills the stage that was read `stages` steps before: at most stages - 1 groups may run."""
    found = list(rules()["wgmma-shared"].check(assembled(ring(stages, left))))
    assert [finding.severity for finding in found] == ["error"] * (left >= stages)


LAST_ROUND = (
    DOUBLE_BUFFER.split("LOOP:", maxsplit=1)[0].replace("<threads>", ".maxntid 128")
    + """LOOP:
  setp.eq.u32 %p, %r9, 1; @%p bra LAST;
  xor.b32 %r3, %r3, 2048;
  cp.async.cg.shared.global [%r3], [%d0+2048], 16; cp.async.commit_group;
  cp.async.wait_group <left>; bra READ;
LAST:
  cp.async.wait_group 0;
READ:
  bar.sync 0;
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r8]; st.global.v4.u32 [%d1], {%r4, %r5, %r6, %r7};
  bar.sync 0; xor.b32 %r8, %r8, 2048;
  sub.u32 %r9, %r9, 1; setp.ne.u32 %p, %r9, 0; @%p bra LOOP;
  ret;
}"""
)


def last_round(left):
    return LAST_ROUND.replace("<left>", left)


def every_text():
    """All that `assembled` is asked for."""
    for rule in WRONG:
        yield from (rules()[rule].FAILS, rules()[rule].PASSES)
    yield from MENDED_KERNELS.values()
    for texts in BROKEN.values():
        yield from texts
    yield from (SAFE, LOOP)
    for left in ("1", "2"):
        yield last_round(left)
        yield from (double_buffer(threads, left) for threads in SHAPES)
    yield from map(guarded, CONDITIONS)
    yield from (guarded(ROW, threads) for threads in WIDTHS)
    yield from map(left_early, EXITS)
    yield from (through_global(fence, source) for fence, source, _ in COPIES)
    yield from (ring(*sizes) for sizes in RINGS)


@pytest.mark.parametrize(("left", "wrong"), [("1", False), ("2", True)])
def test_a_loop_that_waits_for_all_in_its_last_round(left, wrong):
    kernel = assembled(last_round(left))
    assert bool(errors(kernel, "unfinished-copy")) == wrong


def test_the_table_of_mutants_is_what_the_script_counted():
    saved = json.loads((DOCS.parent / "results" / "check_mutants.json").read_text())
    page = (DOCS.parent / "benchmarks" / "notes" / "check.md").read_text()
    assert "\n".join(check_rules.table(saved)) in page
    tried, found = (sum(of[key] for of in saved["kinds"].values()) for key in ("tried", "found"))
    assert tried >= 300
    assert found >= 0.95 * tried
    for kind, of in saved["kinds"].items():
        assert len(of["missed"]) == of["tried"] - of["found"], kind
    assert set(KINDS) < set(saved["kinds"])
