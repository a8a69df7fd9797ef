"""verify without a GPU: the numbers, the references, and a warp that is emulated through the very header's layouts."""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import nvrtc
import pytest

from tcprobe.ask.trace import held
from tcprobe.errors import RowError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import DTYPES, dtype
from tcprobe.isa.sparsity import sparsity
from tcprobe.layout.table import selected
from tcprobe.run import verify
from tcprobe.store.cell import operands, selection
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
    row = inventory.instruction(example["instruction"])
    a, b = (np.array(example[o])[None] for o in "ab")
    zero = np.zeros((1, row.shape.m, row.shape.n), np.int64)
    assert (verify.product(row, verify.Multiplicands(a, b, zero))[0] == np.array(example["d"])).all()


class Warp:
    """A tensor core with the published layouts that runs what `verify` compiles, told apart by the kernels' names."""

    def __init__(self, todo):
        self.cases = [case for pair in todo for case in verify.cases(*pair)]
        self.texts = {}

    def compile_cuda(self, text, names):
        for name in names:
            assert f"void {name}(" in text
            self.texts[name] = text

    def call(self, name, blocks, inputs, output):
        wrong, row, tables = next((w, *case) for case in self.cases for w in verify.WRONG
                                  if verify._name(*case, w) == name)  # fmt: skip
        given = {o: verify.mistaken(k) if o == wrong else k for o, k in tables.items()}
        for block in range(blocks):
            output[block] = self.multiply(row, tables, given, inputs, inputs[3][block])

    def multiply(self, row, real, given, inputs, spoil):
        start, operands_ = 0, {}
        for operand, matrix in zip("abc", inputs, strict=False):
            table, fragment = given[operand].table, real[operand].fragment
            slots = np.zeros(table.points, object)
            for slot, cell in enumerate(table.cells):
                r, c, p = (*cell, 0)[:3]
                value = int(matrix[p, r, c])
                slots[slot] = None if spoil[start + slot] else value
            start += table.points
            truth = np.empty((fragment.products, fragment.rows, fragment.cols), object)
            for slot, cell in reversed(list(enumerate(real[operand].table.cells))):  # the first of copies is read
                r, c, p = (*cell, 0)[:3]
                truth[p, r, c] = slots[slot]
            operands_[operand] = truth
        index = self.indices(real["e"], given["e"], inputs[4]) if len(inputs) > 4 else None
        return self.result(row, operands_, index)

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
        d = row.fragment("d")
        if any(v is None for o in "abc" for v in found[o].ravel()):
            return np.full((row.products, d.rows, d.cols), 1, np.uint64)
        values = []
        for operand in "abc":
            fragment = row.fragment(operand)
            most = 9 if operand == "c" else 3
            numbers = {dtype(fragment.type).pattern(v, fragment.slot_bits): v for v in range(-most, most + 1)
                       if not (v < 0 and fragment.type[0] in "ub")}  # fmt: skip
            values.append(np.vectorize(numbers.__getitem__)(found[operand]))
        product = verify.product(row, verify.Multiplicands(*values, index))
        return verify.patterns(product, d)


@pytest.mark.parametrize(
    "name",
    ["mma.m16n8k8.row.col.f32.f16.f16.f32", "mma.m8n8k4.row.col.f32.f16.f16.f32", "mma.m8n8k16.row.col.s32.u8.s8.s32",
     "wmma.mma.row.col.m8n8k4.f64.f64.f64.f64", "mma.sp.m16n8k8.row.col.f32.tf32.tf32.f32",
     "mma.sp::ordered_metadata.m16n8k32.row.col.f16.f16.f16.f16", "mma.sp.m16n8k64.row.col.s32.s4.u4.s32"],
)  # fmt: skip
def test_a_warp_with_the_published_layouts_is_verified(name):
    row = inventory.instruction(name)
    todo = [(row, operands(row, "sm_90", RESULTS))]
    found = list(verify.verify(Warp(todo), todo, seed=3))
    assert [one.selector for one in found] == list(row.fragment("e").selectors if row.metadata else [None])
    for one in found:
        assert one.good, one
        assert one.unread == {}
        assert one.noticed


def test_a_wrong_table_is_found_out():
    row = inventory.instruction("mma.m16n8k8.row.col.f32.f16.f16.f32")
    right = operands(row, "sm_90", RESULTS)
    claimed = right | {"b": verify.mistaken(right["b"])}

    class Other(Warp):
        def multiply(self, row, real, given, inputs, spoil):
            wrong = {o: (claimed if o == "b" else given)[o] for o in "abcd"}
            return super().multiply(row, right, wrong, inputs, spoil)

    (found,) = verify.verify(Other([(row, right)]), [(row, right)], seed=3)
    assert not found.exact
    assert not found.good
    assert "elements, first D[" in found.first


def test_wrong_metadata_is_found_out():
    row = inventory.instruction("mma.sp.m16n8k16.row.col.f32.f16.f16.f32")
    right = operands(row, "sm_90", RESULTS)
    turned = right["e"].table.selection(2), *(right["e"].table.selection(n) for n in (1, 0, 3))
    claimed = right | {"e": dataclasses.replace(right["e"], table=selected(turned))}

    class Other(Warp):
        def multiply(self, row, real, given, inputs, spoil):
            e = selection(right["e"], real["e"].selector)
            return super().multiply(row, {**right, "e": e}, given, inputs, spoil)

    todo = [(row, claimed)]
    found = list(verify.verify(Other(todo), todo, seed=3))
    assert [one.exact for one in found] == [False, True, False, True]


def test_the_mistake_is_another_layout_of_the_same_elements():
    for table in operands(inventory.instruction("mma.m8n8k4.col.row.f32.f16.f16.f32"), "sm_90", RESULTS).values():
        wrong = verify.mistaken(table)
        assert wrong.table != table.table
        assert set(wrong.table.inverse) == set(table.table.inverse)
        assert [h.row for h in held(wrong, [1])] == [h.row for h in held(table, [4])]


@pytest.mark.skipif(sys.platform != "linux", reason="the NVRTC wheel that the dev extra names is a Linux one")
def test_nvrtc_compiles_what_runs_on_the_gpu():
    rows = [r for r in inventory.multiplies() if r.target.on(arch("sm_90"))][::20]
    assert any(row.metadata for row in rows)
    todo = [case for row in rows for case in verify.cases(row, operands(row, "sm_90", RESULTS))]
    for wrong in verify.WRONG:
        text = verify.source(todo if wrong != "e" else [case for case in todo if "e" in case[1]], wrong)
        done, log = nvrtc.compile_cuda(nvrtc.library(), text, "-arch=sm_90a", "-std=c++17")
        # of plain mma.sp ptxas says that it will be slow on some future GPUs
        assert (done, [line for line in log.splitlines() if "'.sp::ordered" not in line]) == (True, [])


def test_random_indices_are_legal_and_say_which_columns_are_stored():
    for row in (r for r in inventory.multiplies() if r.metadata):
        e, rule = row.metadata, sparsity(row.metadata)
        index = verify.indices(e, np.random.default_rng(4))
        assert index.shape == (e.rows, e.cols // e.span)
        by_chunk = index.reshape(e.rows, -1, rule.fields)
        assert (np.diff(by_chunk, axis=2) > 0).all()
        assert len(np.unique(by_chunk.reshape(-1, rule.fields), axis=0)) == len(rule.legal)
        stored = np.arange(1, e.rows * e.cols + 1).reshape(1, e.rows, e.cols)
        whole = verify.dense(rule, stored, index)
        assert whole.shape == (1, row.shape.m, row.shape.k)
        assert (whole[whole > 0].reshape(stored.shape) == stored).all()  # in the order of k, none lost
