"""Rules on speed: what they count is what the addresses give, for right kernels and for mutants of them.

Kinds of mutants, listed before the rules were tried on them: a swizzle taken out of an address, a swizzle that takes
the wrong bits of the row, padding taken out of a pitch, and a stride between lanes doubled. Each is compiled by ptxas
and read from machine code; what it costs is known from its own formula, evaluated for all lanes by NumPy.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from machine_code import needs_tools

from tcprobe.check import published
from tcprobe.check.code_check import Checker, KernelCheck
from tcprobe.check.rule import Finding, rules
from tcprobe.layout.arrays import Ints
from tcprobe.layout.banks import judge
from tcprobe.sass import requests, toolchain
from tcprobe.sass.addresses import SHARED, reaches
from tcprobe.sass.code_files import CodeFiles
from tcprobe.sass.disassemble import programs
from tcprobe.sass.kernel import Kernel
from tcprobe.store.choose import default

pytestmark = needs_tools
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
DYNAMIC = ".extern .shared .align 128 .b8 tile[];\n"
SPEED = ("bank-conflicts", "sectors", "spills", "serialised", "emulated", "slow-path", "registers")
WARPS = 4


class Pattern(NamedTuple):
    """A tile in shared memory: thread t is at row t >> columns & rows - 1, and t & (1 << columns) - 1 in it.

    Its address is row * pitch + (column * width ^ (row >> shift & mask) * unit), from a base that a parameter gives.
    """

    access: str
    width: int
    columns: int
    pitch: int
    mask: int = 0
    shift: int = 0
    unit: int = 16
    rows: int = 32
    kind: str = ""

    @property
    def addresses(self) -> Ints:
        """(warps, 32)."""
        t = np.arange(32 * WARPS).reshape(WARPS, 32)
        row, column = t >> self.columns & self.rows - 1, t & (1 << self.columns) - 1
        return row * self.pitch + (column * self.width ^ (row >> self.shift & self.mask) * self.unit)

    @property
    def cost(self) -> tuple[int, int]:
        """(wavefronts, beats) of the worst warp."""
        costs = [judge(self.access, row.tolist()) for row in self.addresses]
        return max(((c.wavefronts, c.beats) for c in costs), key=lambda c: (c[0] - c[1], c[0]))

    def ptx(self, name: str) -> str:
        """A kernel with this access alone, in a loop whose rounds take other stages of shared memory."""
        registers = max(1, self.width // 4)
        vector = f".v{registers}" if registers > 1 else ""
        held = "{" + ", ".join(f"v{j}" for j in range(registers)) + "}" if registers > 1 else "v0"
        kind = f"b{min(32, 8 * self.width)}" if self.width > 1 else "u8"
        if self.access.startswith("ldmatrix"):
            count = int(self.access[10])
            held = "{" + ", ".join(f"v{j}" for j in range(count)) + "}"
            step = f"ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {held}, [a];"
        elif self.access.startswith("ld"):
            step = f"ld.shared{vector}.{kind} {held}, [a];"
        else:
            step = f"st.shared{vector}.{kind} [a], {held};"
        return f"""
.visible .entry {name}(.param .u64 out, .param .u32 begin, .param .u32 rounds) .reqntid {32 * WARPS} {{
.reg .b32 t, row, col, x, a, base, i, n, sum, v<4>; .reg .b64 p; .reg .pred q;
ld.param.u64 p, [out]; ld.param.u32 i, [begin]; ld.param.u32 n, [rounds];
mov.u32 t, %tid.x; mov.u32 sum, 0;
mov.u32 v0, t; mov.u32 v1, t; mov.u32 v2, t; mov.u32 v3, t;
shr.u32 row, t, {self.columns}; and.b32 row, row, {self.rows - 1}; and.b32 col, t, {(1 << self.columns) - 1};
shr.u32 x, row, {self.shift}; and.b32 x, x, {self.mask}; mul.lo.u32 x, x, {self.unit};
mul.lo.u32 col, col, {self.width}; xor.b32 col, col, x;
mad.lo.u32 row, row, {self.pitch}, col;
mov.u32 base, tile; add.u32 row, row, base;
more:
mad.lo.u32 a, i, 8192, row;
{step}
add.u32 sum, sum, v0; add.u32 sum, sum, v1; add.u32 sum, sum, v2; add.u32 sum, sum, v3;
add.u32 i, i, 1; setp.lt.u32 q, i, n;
@q bra more;
mad.wide.u32 p, t, 4, p; st.global.b32 [p], sum; ret;
}}
"""


def right() -> Iterator[Pattern]:
    """Tiles without conflicts: swizzled by 32, 64 and 128 bytes, padded, and in one row."""
    for columns, mask, shift in ((3, 7, 0), (2, 3, 1), (1, 1, 2)):
        for access in ("ld.shared.b128", "st.shared.b128"):
            yield Pattern(access, 16, columns, 16 << columns, mask, shift)
        for count in (1, 2, 4):
            yield Pattern(f"ldmatrix.x{count}", 16, 0, 16 << columns, mask, shift)
    for pitch in (36, 68, 132, 260):
        yield Pattern("ld.shared.b32", 4, 0, pitch)
        yield Pattern("st.shared.b32", 4, 0, pitch)
    for pitch in (72, 136, 264):
        yield Pattern("ld.shared.b64", 8, 0, pitch)
    for pitch in (80, 144, 272, 528):
        for access in ("ld.shared.b128", "ldmatrix.x2", "ldmatrix.x4"):
            yield Pattern(access, 16, 0, pitch)
    for access, width in (("ld.shared.b8", 1), ("st.shared.b16", 2), ("ld.shared.b32", 4), ("st.shared.b64", 8)):
        yield Pattern(access, width, 5, 128 * width)


def mutants(pattern: Pattern) -> Iterator[Pattern]:
    """What is made of a right pattern, by kind."""
    if pattern.mask:
        yield pattern._replace(mask=0, kind="a swizzle taken out of an address")
        yield pattern._replace(shift=pattern.shift + 3, kind="a swizzle that takes the wrong bits of the row")
    elif pattern.columns == 0:
        power = 1 << pattern.pitch.bit_length() - 1
        yield pattern._replace(pitch=power, kind="padding taken out of a pitch")
        yield pattern._replace(pitch=2 * pattern.pitch, kind="a stride between lanes doubled")
    else:
        yield pattern._replace(columns=0, pitch=64, kind="padding taken out of a pitch")


@cache
def cases() -> tuple[Pattern, ...]:
    """The right patterns and their mutants."""
    return tuple(dict.fromkeys(p for own in right() for p in (own, *mutants(own))))


def built(text: str, folder: Path) -> list[Kernel]:
    """Kernels of a PTX text."""
    path = folder / "text.ptx"
    path.write_text(text)
    tools = toolchain.find(None)
    found = []
    for compiled in CodeFiles(tools).read(path):
        found += programs(tools, compiled.cubin.arch, compiled.cubin.functions)
        for kernel in found:
            kernel.ptx = text
    return found


def checked(text: str, folder: Path, rule: str) -> list[KernelCheck]:
    """What a rule finds in a PTX text."""
    path = folder / "text.ptx"
    path.write_text(text.lstrip())
    tools = toolchain.find(None)
    checker = Checker(tools, [rule], CodeFiles(tools))
    found = list(checker.check([path]))
    assert not checker.complaints
    return found


@pytest.fixture(scope="module")
def machine_code(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Pattern, Kernel]]:
    """Every case with what ptxas makes of it."""
    names = {f"k{j}": pattern for j, pattern in enumerate(cases())}
    text = HEAD + DYNAMIC + "".join(pattern.ptx(name) for name, pattern in names.items())
    return [(names[kernel.name], kernel) for kernel in built(text, tmp_path_factory.mktemp("speed"))]


def test_right_kernels_and_mutants_cost_what_their_formula_says(
    machine_code: list[tuple[Pattern, Kernel]],
) -> None:
    found: Counter[tuple[str, bool]] = Counter()
    assert len(machine_code) == len(cases()) > 80
    for pattern, kernel in machine_code:
        requested = [
            requests.conflicts(reach)
            for reach in reaches(kernel)
            if reach.instruction.mnemonic in SHARED
            and requests.shared_access(reach.instruction.form).name == pattern.access
        ]
        assert requested, (pattern, "no such access in the code")
        assert {(r.worst, r.least) for r in requested if r} == {pattern.cost}, pattern
        warned = [f for f in rules()["bank-conflicts"].check(kernel) if f.severity == "warning"]
        assert bool(warned) == (pattern.cost[0] > pattern.cost[1]), pattern
        found[pattern.kind, bool(warned)] += 1
    assert not found["", True]
    for kind in {pattern.kind for pattern in cases()} - {""}:
        assert found[kind, True] > found[kind, False], (kind, found)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], KernelCheck]:
    """By rule and whether it is the text that fails what all rules find in it; disassembled together."""
    folder, given = tmp_path_factory.mktemp("examples"), {}
    for name in SPEED:
        for fails, text in ((True, rules()[name].FAILS), (False, rules()[name].PASSES)):
            path = folder / f"{name}.{fails}.ptx"
            path.write_text(text.lstrip())
            given[str(path)] = name, fails
    tools = toolchain.find(None)
    checker = Checker(tools, SPEED, CodeFiles(tools))
    found = list(checker.check([Path(path) for path in given]))
    assert not checker.complaints
    assert len(found) == len(given)
    return {given[kernel.file]: kernel for kernel in found}


@pytest.mark.parametrize("name", SPEED)
def test_examples(name: str, examples: dict[tuple[str, bool], KernelCheck]) -> None:
    """What a rule says fails does, and only that; loops are named."""
    for fails in (True, False):
        kernel = examples[name, fails]
        placed = [each.finding for each in kernel.findings if each.finding.rule == name]
        found = [finding for finding in placed if finding.severity == "warning"]
        assert bool(found) == fails, (name, kernel)
        for finding in found:
            assert finding.rule == name
            assert json.loads(json.dumps(dict(finding.numbers))) == finding.numbers != {}


def test_a_base_without_alignment_decides_only_where_bytes_may_cross_words(tmp_path: Path) -> None:
    body = """
.visible .entry {name}(.param .u64 out, .param .u32 base) .reqntid 32 {{
.reg .b32 t, a, x; .reg .b16 h; .reg .b64 p;
ld.param.u64 p, [out]; ld.param.u32 a, [base]; mov.u32 t, %tid.x; mad.lo.u32 a, t, {stride}, a;
ld.shared.{kind} {into}, [a]; {widen} mad.wide.u32 p, t, 4, p; st.global.b32 [p], x; ret;
}}
"""
    wide = body.format(name="words", stride=8, kind="b32", into="x", widen="")
    halves = body.format(name="halves", stride=62, kind="u16", into="h", widen="cvt.u32.u16 x, h;")
    by_name = {kernel.name: kernel for kernel in built(HEAD + DYNAMIC + wide + halves, tmp_path)}
    (finding,) = rules()["bank-conflicts"].check(by_name["words"])
    assert (finding.numbers["wavefronts"], finding.numbers["least"]) == (2, 1)
    (finding,) = rules()["bank-conflicts"].check(by_name["halves"])
    assert finding.undecided
    assert "where a base lies in a word" in finding.text


def test_lanes_that_are_left_out_do_not_count(tmp_path: Path) -> None:
    text = """
.visible .entry some(.param .u64 out) .reqntid 64 {
.reg .b32 t, a, x; .reg .b64 p; .reg .pred q;
.shared .align 16 .b8 tile[8192];
ld.param.u64 p, [out]; mov.u32 t, %tid.x; mov.u32 a, tile; mad.lo.u32 a, t, 128, a;
mov.u32 x, 0;
setp.lt.u32 q, t, 3;
@q ld.shared.b32 x, [a];
mad.wide.u32 p, t, 4, p; st.global.b32 [p], x; ret;
}
"""
    (kernel,) = built(HEAD + text, tmp_path)
    (finding,) = rules()["bank-conflicts"].check(kernel)
    assert (finding.numbers["wavefronts"], finding.numbers["lanes"]) == (3, 3)


def test_what_lanes_load_is_undecided_and_says_so(tmp_path: Path) -> None:
    text = """
.visible .entry looked(.param .u64 out, .param .u64 table) .reqntid 32 {
.reg .b32 t, a, b, x; .reg .b64 p, q;
.shared .align 16 .b8 tile[8192];
ld.param.u64 p, [out]; ld.param.u64 q, [table]; mov.u32 t, %tid.x; mad.wide.u32 q, t, 4, q;
ld.global.b32 a, [q]; mov.u32 b, tile; mad.lo.u32 a, a, 4, b; ld.shared.b32 x, [a];
mad.wide.u32 p, t, 4, p; st.global.b32 [p], x; ret;
}
"""
    (kernel,) = built(HEAD + text, tmp_path)
    (finding,) = rules()["bank-conflicts"].check(kernel)
    assert finding.undecided
    assert "that lanes load" in finding.text


@pytest.mark.parametrize(("shape", "wavefronts", "assumed"), [("", 32, True), (".reqntid 32, 32", 32, False)])
def test_a_block_of_unstated_shape_has_whole_warps_in_a_row(tmp_path, shape, wavefronts, assumed):
    """A transposed tile: a column of 32 rows of 128 bytes is in one bank, whatever else a narrower block does."""
    text = (
        f"{HEAD}.visible .entry columns(.param .u64 out) {shape} {{\n"
        ".reg .b32 x, y, a; .reg .b64 p; .shared .align 16 .b8 tile[4096];\nld.param.u64 p, [out];\n"
        "mov.u32 x, %tid.x; mov.u32 y, %tid.y; mov.u32 a, tile; mad.lo.u32 a, x, 128, a; mad.lo.u32 a, y, 4, a;\n"
        "ld.shared.b32 x, [a]; st.global.b32 [p], x; ret; }\n"
    )
    (kernel,) = checked(text, tmp_path, "bank-conflicts")
    (found,) = [one.finding for one in kernel.findings if one.finding.severity == "warning"]
    assert found.numbers["wavefronts"] == wavefronts
    assert ("whole warps" in found.text) == assumed


def findings_of(name: str, folder: Path, arch: str = "sm_90") -> list[Finding]:
    """What a rule finds in its own example, on an arch."""
    (kernel,) = built(rules()[name].FAILS.replace(".target sm_90", f".target {arch}"), folder)
    return list(rules()[name].check(kernel))


def test_cycles_stand_beside_a_warning_where_they_are_measured(tmp_path):
    """The prices that are published: a wavefront of LDS and STS, a wgmma's round trip, an emulated multiply."""
    layers = default()
    multiply = layers.findings("cost", "sm_90")
    group = multiply["wgmma.mma_async.m64n64k16.f32.bf16.bf16"].finding.body
    (alone,) = (
        trip.cycles for trip in group.round_trip if (trip.a, trip.warpgroups, trip.in_flight) == ("shared", 1, 1)
    )
    row = min(flight.cycles for flight in group.interval if (flight.a, flight.warpgroups) == ("shared", 1))
    for finding in findings_of("bank-conflicts", tmp_path):
        assert finding.numbers["cycles"] == finding.numbers["wavefronts"] - finding.numbers["least"]
        assert f"{finding.numbers['cycles']:g} cycles more" in finding.text
    for finding in findings_of("serialised", tmp_path):
        assert finding.numbers["cycles"] == pytest.approx(alone - row, abs=0.06)
    (finding,) = findings_of("emulated", tmp_path)
    cycles = multiply["mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"].finding.body.interval.cycles
    assert finding.numbers["cycles"] == pytest.approx(cycles, abs=0.06)


def test_without_a_price_there_are_no_cycles(tmp_path, monkeypatch):
    for name in ("bank-conflicts", "spills"):
        for finding in findings_of(name, tmp_path, "sm_80"):
            assert "cycles" not in finding.numbers
            assert "cycle" not in finding.text
    (finding,) = findings_of("spills", tmp_path)
    measured = published.interval("sm_90", "LDL"), published.interval("sm_90", "STL")
    cycles = measured[0] * finding.numbers["loads"] + measured[1] * finding.numbers["stores"]
    assert finding.numbers["cycles"] == pytest.approx(cycles)
    monkeypatch.setattr(published, "interval", lambda arch, opcode: {"LDL": 2.0, "STL": 3.0}[opcode.split(".")[0]])
    (finding,) = findings_of("spills", tmp_path)
    cycles = 2 * finding.numbers["loads"] + 3 * finding.numbers["stores"]
    assert finding.numbers["cycles"] == cycles
    assert f"and {cycles:g} cycles of an SM for each warp a round" in finding.text
