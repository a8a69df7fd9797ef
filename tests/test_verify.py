"""verify without a GPU: the numbers, the references, and a warp that is emulated through the very header's layouts."""

import dataclasses
import json
import re
import sys
from pathlib import Path

import msgspec
import numpy as np
import nvrtc
import pytest

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.ask.descriptor import cuda
from tcprobe.ask.registers import elements_held
from tcprobe.errors import RowError
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import DTYPES, dtype
from tcprobe.isa.instruction import sparsity
from tcprobe.isa.names import resolve, select_instructions
from tcprobe.layout import descriptor
from tcprobe.layout.descriptor import decode
from tcprobe.layout.table import selected, slot_table
from tcprobe.run import multiplicands, verify
from tcprobe.store.cell import operands, selection
from tcprobe.store.choose import alone
from tcprobe.store.results import published

EXAMPLES = json.loads((Path(__file__).parent / "data" / "worked_examples.json").read_text())["examples"]
RESULTS = published()


@pytest.mark.parametrize("kind", [d.name for d in DTYPES if d.name not in ("b1", "ue8m0", "ue4m3")])
def test_patterns_of_whole_numbers(kind):
    row = dtype(kind)
    slot = max(8, row.bits) if kind in ("e3m2", "e2m3", "e2m1") else row.bits
    assert row.pattern(1, slot) == row.one_in(slot)
    assert row.pattern(0, slot) == 0
    decode = {"f16": np.float16, "f32": np.float32, "f64": np.float64}.get(kind)
    for value in (-3, -2, 1, 2, 3):
        if decode and row.is_float:
            unsigned = {16: np.uint16, 32: np.uint32, 64: np.uint64}[row.bits]
            assert np.array([row.pattern(value, slot)], unsigned).view(decode)[0] == value
    if kind not in ("u8", "u4"):
        assert row.pattern(-1, slot) != row.pattern(1, slot)


def test_what_a_type_does_not_hold_is_refused():
    for kind, value in (("e2m1", 5), ("e4m3", 17), ("f16", 2049), ("s4", 99)):
        with pytest.raises(RowError):
            dtype(kind).pattern(value, dtype(kind).bits)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e["instruction"])
def test_worked_examples_are_products(example):
    row = resolve(example["instruction"]).instruction
    a, b = (np.array(example[o])[None] for o in "ab")
    zero = np.zeros((1, row.shape.m, row.shape.n), np.int64)
    assert (multiplicands.product(row, multiplicands.Multiplicands(a, b, zero))[0] == np.array(example["d"])).all()


WARPGROUPS = (
    "wgmma.mma_async.m64n24k16.f32.bf16.bf16",
    "wgmma.mma_async.m64n8k256.s32.b1.b1.and.popc",
    "wgmma.mma_async.m64n64k32.f16.e4m3.e5m2",
    "wgmma.mma_async.sp.m64n8k32.f16.f16.f16",
    "wgmma.mma_async.sp.m64n24k16.f32.tf32.tf32",
    "wgmma.mma_async.sp.m64n24k64.s32.u8.s8",
)


class Warp:
    """A tensor core with the published layouts that runs what `verify` compiles, told apart by the kernels' names.

    Memory behind descriptors is laid out by the tiles whose formulas and lines stand in the kernel's text, and read by
    these lines' descriptors as `layout.descriptor` has it.
    """

    def __init__(self, todo, rule=None):
        self.rule = rule
        found = [case for pair in todo for case in verify.cases(*pair)]
        self.cases = {verify.kernel_name(case): case for case in found}
        self.texts = {}

    def compile_cuda(self, text, names, target=None):
        for name in names:
            assert text.count(f"void {name}(") == 1
            assert target == ("sm_90a" if "_wgmma_" in name else None)
            self.texts[name] = text.partition(f"void {name}(")[2].partition("namespace verify_")[0]

    def call(self, name, blocks, inputs, destination, each):
        case = self.cases[name]
        assert each == (case.instruction.threads, case.shared_bytes)
        assert blocks == destination.shape[0] * destination.shape[1]
        held = {**case.operands, "c": case.sums}
        for variant, placed in np.ndindex(*destination.shape[:2]):
            *spoilt, number = inputs[3][variant]
            wrong = verify.WRONG[number]
            given = {o: mistaken(k) if o == wrong else k for o, k in held.items()}
            memory = Memory(self.texts[name], case, placed, wrong)
            destination[variant, placed] = self.multiply(case, held, given, inputs, spoilt, memory)

    def multiply(self, case, real, given, inputs, spoilt, memory):
        truth = {}
        for place, (o, matrix) in enumerate(zip("abc", inputs, strict=False)):
            steps = case.steps if o != "c" else 1
            if o in memory.tiles:
                truth[o] = memory.read(o, matrix)
                continue
            parts = [
                self.registers(part, real[o], given[o], spoilt[place])
                for part in np.split(matrix, steps, axis=1 if o == "b" else 2)
            ]
            truth[o] = np.concatenate(parts, axis=1 if o == "b" else 2)
        e = real.get("e")
        index = (
            [self.indices(e, given["e"], part) for part in inputs[4].reshape(case.steps, e.fragment.rows, -1)]
            if e
            else None
        )
        return self.result(case.instruction, truth, np.concatenate(index, axis=1) if e else None)

    def registers(self, matrix, real, given, spoilt):
        """What the hardware takes from registers that the header of `given` fills; None in what is spoilt."""
        table, found = given.table, np.empty(matrix.shape, object)
        slots = [
            None if slot % table.elements == spoilt else int(matrix[(*cell, 0)[2], cell[0], cell[1]])
            for slot, cell in enumerate(table.cells)
        ]
        for slot, cell in reversed(list(enumerate(real.table.cells))):  # the first of copies is read
            found[(*cell, 0)[2], cell[0], cell[1]] = slots[slot]
        return found

    def indices(self, real, given, index):
        """The indices that the hardware reads from registers built by the given map; 0 in a lane that was left out."""
        e = real.fragment
        held = {slot: index[cell[0], cell[1] // e.span] for slot, cell in enumerate(given.table.cells) if cell}
        found = np.zeros_like(index, np.int64)
        for slot, cell in enumerate(real.table.cells):
            if cell:
                found[cell[0], cell[1] // e.span] = held.get(slot, 0)
        return found

    def result(self, row, found, index):
        d = multiplicands.matrix(row, "d")
        if any(v is None for o in "abc" for v in found[o].ravel()):
            return np.full((row.products, d.rows, d.cols), 1, np.uint64)
        values = []
        for operand in "abc":
            held = multiplicands.matrix(row, operand)
            most = 9 if operand == "c" else 1 if held.type == "b1" else 3
            numbers = {
                dtype(held.type).pattern(v, held.slot_bits): v
                for v in range(-most, most + 1)
                if not (v < 0 and held.type in ("u8", "u4", "b1"))
            }
            if not set(found[operand].ravel().tolist()) <= set(numbers):
                return self.floats(row, found, index)
            values.append(np.vectorize(numbers.__getitem__)(found[operand]))
        product = multiplicands.product(row, multiplicands.Multiplicands(*values, index))
        return multiplicands.patterns(product, d)

    def floats(self, row, found, index):
        """By the model, or another than the results say."""
        kinds = [multiplicands.matrix(row, o).type for o in "abc"]
        bits = (found[o].astype(np.uint64).astype(FORMATS[kind].word) for o, kind in zip("abc", kinds, strict=True))
        rule = self.rule or multiplicands.model_of(row, "sm_90", alone(RESULTS))
        return multiplicands.bits_by_model(row, rule, multiplicands.Multiplicands(*bits, index))


def mistaken(cell):
    """The same with two bits of lane exchanged: lane 1 holds what lane 4 does, and so on."""
    table = cell.table
    lanes = [lane & ~5 | (lane & 1) << 2 | lane >> 2 & 1 for lane in range(table.threads)]
    slots = [lane * table.elements + i for lane in lanes for i in range(table.elements)]
    values = {name: tuple(column[slot] for slot in slots) for name, column in table.values.items()}
    return dataclasses.replace(cell, table=slot_table(table.threads, table.elements, values))


class Memory:
    """Shared memory as a kernel's text fills it for one swizzle, and reads it."""

    def __init__(self, text, case, placed, wrong):
        self.wrong = wrong
        part = text.partition(f"case {placed}:")[2].partition("break;")[0]
        self.tiles = {one.matrix: (one, one.tile(case.swizzles[placed])) for one in case.shared}
        self.parts = dict(zip(self.tiles, part.split("unsigned char* const smem = ")[1:], strict=True))
        for o, (_, found) in self.tiles.items():
            assert found.formula in self.parts[o]
            assert cuda(found) in self.parts[o]

    def read(self, o, matrix):
        (one, found), part = self.tiles[o], self.parts[o]
        lines, k = np.indices(one.extent)
        assert ("^ (variant[3] == 1), k" in part) == (o == "a")
        crossed = lines ^ (self.wrong == o)
        shape = (one.operand.held.rows, one.operand.held.cols)
        memory = {}
        whole = matrix[0] if o == "a" else matrix[0].T
        for at, bit, value in zip(
            found.offset(crossed, k).ravel(), (k % 8 * (found.bits < 8)).ravel(), whole.ravel(), strict=True
        ):
            memory[int(at), int(bit)] = int(value)
        assert len(memory) == matrix.size
        steps = [0, *np.cumsum([16 * int(n) for n in re.findall(rf"next_{o}\[\d\] = (\d+);", part)]).tolist()]
        one_of = decode(int(re.search(r"desc = (0x[0-9a-f]+)ull", part)[1], 16))
        row, col = np.indices(shape)
        line, at = (row, col) if o == "a" else (col, row)
        reads = [one_of._replace(start=step) for step in steps]
        places = [descriptor.offsets(r, one.major, line, at, found.bits) + r.start for r in reads]
        read = [np.vectorize(lambda p, b: memory[p, b])(p, at % 8 * (found.bits < 8)) for p in places]
        return np.concatenate(read, axis=1 if o == "a" else 0)[None]


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        "mma.m16n8k8.row.col.f32.f16.f16.f32",
        "mma.m8n8k4.row.col.f32.f16.f16.f32",
        "mma.m8n8k16.row.col.s32.u8.s8.s32",
        "wmma.mma.row.col.m8n8k4.f64.f64.f64.f64",
        "mma.sp.m16n8k8.row.col.f32.tf32.tf32.f32",
        "mma.sp::ordered_metadata.m16n8k32.row.col.f16.f16.f16.f16",
        "mma.sp.m16n8k64.row.col.s32.s4.u4.s32",
        "wmma.mma.row.col.m16n16k16.f32.f32",
        "wgmma.mma_async.m64n24k16.f32.bf16.bf16",
        "wgmma.mma_async.m64n8k8.f32.tf32.tf32",
        "wgmma.mma_async.m64n8k256.s32.b1.b1.and.popc",
        "wgmma.mma_async.sp.m64n8k32.f16.f16.f16",
        "wgmma.mma_async.sp.m64n24k64.s32.u8.s8",
        "wgmma.mma_async.sp.m64n8k16.f32.tf32.tf32",
    ],
)
def test_a_warp_with_the_published_layouts_is_verified(name):
    row = resolve(name).instruction
    todo = [(row, operands(row, "sm_90", RESULTS))]
    found = list(verify.verify(Warp(todo), todo, seed=3))
    assert len({verify.kernel_name(one.case) for one in found}) == len(found)
    majors = len(row.described[0].held.majors) if row.described else 0
    places = majors + majors**2 or 1  # B alone in shared memory, or both factors
    assert [one.case.selector for one in found] == [
        n for n in (row.fragment("e").selectors if row.metadata else [None]) for _ in range(places)
    ]
    for one in found:
        assert one.good, one
        assert one.unread == ({} if not row.id.startswith("wmma") else one.unread)
        assert one.noticed
        rule = multiplicands.model_of(row, "sm_90", alone(RESULTS))
        size = row.shape.m * row.shape.n * row.products * len(one.case.swizzles)
        assert one.floats == (verify.FloatResults(size, 0, "") if rule else None)


def test_an_arithmetic_other_than_the_model_is_found_out():
    """One that rounds to nearest even in place of toward zero: whole numbers are exact all the same."""
    row = resolve("mma.m16n8k8.row.col.f32.f16.f16.f32").instruction
    todo = [(row, operands(row, "sm_90", RESULTS))]
    rule = multiplicands.model_of(row, "sm_90", alone(RESULTS))
    other = msgspec.structs.replace(rule, rounding="nearest even")
    (found,) = verify.verify(Warp(todo, other), todo, seed=3)
    assert found.exact
    assert not found.good
    assert 0 < found.to_json()["wrong_bits"] < found.to_json()["float_results"] == 128
    assert "of random floats: 0x" in found.floats.first


def test_random_floats_of_a_sparse_multiply_meet_the_rows_that_the_metadata_picks():
    """The model's bits of ones at random places are the counts of what meets."""
    row = resolve("mma.sp.m16n8k32.row.col.f32.f16.f16.f32").instruction
    given = multiplicands.draw_floats(row, np.random.default_rng(5))
    whole = [
        np.random.default_rng(n).integers(1, 4, x.shape).astype(np.float16) for n, x in enumerate((given.a, given.b))
    ]
    given = multiplicands.Multiplicands(*(x.view(np.uint16) for x in whole), np.zeros_like(given.c), given.index)
    rule = multiplicands.model_of(row, "sm_90", alone(RESULTS))
    d = multiplicands.bits_by_model(row, rule, given).view(np.float32)
    a, b = (x.astype(np.int64) for x in whole)
    assert (d == multiplicands.dense(sparsity(row.metadata), a, given.index) @ b).all()


def test_a_wrong_table_is_found_out():
    row = resolve("mma.m16n8k8.row.col.f32.f16.f16.f32").instruction
    right = operands(row, "sm_90", RESULTS)
    claimed = right | {"b": mistaken(right["b"])}

    class Other(Warp):
        def multiply(self, case, real, given, *rest):
            return super().multiply(case, right, given | {"b": claimed["b"]}, *rest)

    (found,) = verify.verify(Other([(row, right)]), [(row, right)], seed=3)
    assert not found.exact
    assert not found.good
    assert "elements, first D[" in found.first


def test_wrong_metadata_is_found_out():
    row = resolve("mma.sp.m16n8k16.row.col.f32.f16.f16.f32").instruction
    right = operands(row, "sm_90", RESULTS)
    turned = right["e"].table.selection(2), *(right["e"].table.selection(n) for n in (1, 0, 3))
    claimed = right | {"e": dataclasses.replace(right["e"], table=selected(turned))}

    class Other(Warp):
        def multiply(self, case, real, *rest):
            e = selection(right["e"], case.selector)
            return super().multiply(case, {**right, "e": e}, *rest)

    todo = [(row, claimed)]
    found = list(verify.verify(Other(todo), todo, seed=3))
    assert [one.exact for one in found] == [False, True, False, True]


def test_the_mistake_is_another_layout_of_the_same_elements():
    for table in operands(resolve("mma.m8n8k4.col.row.f32.f16.f16.f32").instruction, "sm_90", RESULTS).values():
        wrong = mistaken(table)
        assert wrong.table != table.table
        assert set(wrong.table.inverse) == set(table.table.inverse)
        assert [h.row for h in elements_held(wrong, [1])] == [h.row for h in elements_held(table, [4])]


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the NVRTC wheel that the dev extra names is a Linux one")
def test_nvrtc_compiles_what_runs_on_the_gpu():
    rows = [r for r in select_instructions() if r.multiplies_registers and r.target.on(arch("sm_90"))][::20]
    assert any(row.metadata for row in rows)
    rows += [resolve(name).instruction for name in WARPGROUPS]
    todo = [case for row in rows for case in verify.cases(row, operands(row, "sm_90", RESULTS))]
    done, log = nvrtc.compile_cuda(nvrtc.library(), verify.cuda_source(todo), "-arch=sm_90a", "-std=c++17")
    # of plain mma.sp ptxas says that it will be slow on some future GPUs
    assert (done, [line for line in log.splitlines() if "'.sp::ordered" not in line]) == (True, [])


def test_random_indices_are_legal_and_say_which_columns_are_stored():
    for row in (r for r in select_instructions() if r.multiplies_registers and r.metadata):
        e, rule = row.metadata, sparsity(row.metadata)
        index = multiplicands.indices(e, np.random.default_rng(4))
        assert index.shape == (e.rows, e.cols // e.span)
        by_chunk = index.reshape(e.rows, -1, rule.fields)
        assert (np.diff(by_chunk, axis=2) > 0).all()
        assert len(np.unique(by_chunk.reshape(-1, rule.fields), axis=0)) == len(rule.legal)
        stored = np.arange(1, e.rows * e.cols + 1).reshape(1, e.rows, e.cols)
        whole = multiplicands.dense(rule, stored, index)
        assert whole.shape == (1, row.shape.m, row.shape.k)
        assert (whole[whole > 0].reshape(stored.shape) == stored).all()  # in the order of k, none lost
