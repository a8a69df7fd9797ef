"""Probes against an emulated tensor core of any layout: what they decode is what the emulator has."""

import dataclasses
import random

import emulation
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples
from test_pins import PINNED

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.probes import experiments
from tcprobe.probes.experiment import OWN_RULE, Context
from tcprobe.probes.multiply import MultiplyExperiment
from tcprobe.probes.slots import codes, one_hot, pack, unpack
from tcprobe.probes.wmma import MemoryExperiment, memory_table
from tcprobe.run.emulator import Emulator
from tcprobe.run.runner import conclude

SEEDS = st.integers(0, 2**32)
MEMORY = [e for e in experiments().values() if isinstance(e, MemoryExperiment)]
# k up to 64: the larger b1 forms are the same code with more slots, and slow to emulate
SMALL = [e for e in experiments().values() if isinstance(e, MultiplyExperiment) and e.instruction.shape.k <= 64]


def run(experiment, emulator):
    launches = experiment.launches()
    return experiment.decode(launches, emulator.run(launches))


def expected(table, cols):
    return [-1 if cell is None else cell[0] * cols + cell[1] for cell in table.cells]


@examples(40)
@given(st.sampled_from(MEMORY), SEEDS)
def test_loads_and_stores_recover_any_layout(experiment, seed):
    fragment = experiment.fragments[0]
    table = emulation.shuffled(fragment, random.Random(seed))
    reading = run(experiment, Emulator({f.id: table for f in experiment.fragments}))
    assert reading["elements"].tolist() == expected(table, fragment.cols)


@examples(15)
@given(st.sampled_from([e for e in MEMORY if e.fragments[0].copies > 1]), SEEDS)
def test_slots_that_no_load_fills_are_seen(experiment, seed):
    rng = random.Random(seed)
    fragment = experiment.fragments[0]
    table = emulation.one_copy(emulation.shuffled(fragment, rng), rng)
    reading = run(experiment, Emulator({fragment.id: table}))
    assert reading["elements"].tolist() == expected(table, fragment.cols)


def test_a_table_that_lacks_a_copy_is_an_error():
    fragment = inventory.fragments()["wmma.m16n16k16.a.row.f16"]
    numbers = [*range(256), *range(255), -1]
    with pytest.raises(ProbeError, match="1 elements are not held 2 times, first row 15 col 15: 1 times"):
        memory_table(fragment, numbers)


def test_load_and_store_that_disagree_are_an_error():
    experiment = next(e for e in MEMORY if len(e.fragments) == 2)
    rng = random.Random(1)
    tables = {f.id: emulation.shuffled(f, rng) for f in experiment.fragments}
    with pytest.raises(ProbeError, match="disagree"):
        run(experiment, Emulator(tables))


@examples(25)
@given(st.sampled_from(SMALL), SEEDS)
def test_the_structure_tensor_is_recovered_exactly(experiment, seed):
    rng = random.Random(seed)
    fragments = experiment.instruction.fragments
    tables = {f.id: emulation.shuffled(f, rng) for f in fragments}
    reads = {f.id: emulation.one_copy(tables[f.id], rng) for f in fragments[:2]}
    reading = run(experiment, Emulator(tables, reads))
    a, b, _, d = (reads.get(f.id, tables[f.id]) for f in fragments)
    triples = set(zip(reading["a"].tolist(), reading["b"].tolist(), reading["d"].tolist(), strict=True))
    predicted = {
        (sa, sb, sd)
        for sa, ca in enumerate(a.cells)
        if ca is not None
        for col in range(fragments[1].cols)
        for sb in b.inverse.get((ca[1], col, *ca[2:]), [])
        for sd in d.inverse[(ca[0], col, *ca[2:])]
    }
    assert triples == predicted
    c = tables[fragments[2].id]
    assert all(c.cells[s] == d.cells[t] for s, t in enumerate(reading["c"].tolist()))


@pytest.mark.parametrize(
    "name", ["mma.m16n8k128.row.col.s32.b1.b1.s32.xor.popc", "mma.m8n8k128.row.col.s32.b1.b1.s32.and.popc"]
)
def test_b1_forms(name):
    experiment = experiments()[name]
    rng = random.Random(3)
    tables = {f.id: emulation.shuffled(f, rng) for f in experiment.instruction.fragments}
    found = measured(experiment, Emulator(tables))
    assert found.structure.triples == np.prod(experiment.instruction.shape)


def measured(experiment, emulator, known=None):
    reading = run(experiment, emulator)
    return conclude(experiment, reading, Context(arch("sm_90"), lambda f: (known or {}).get(f.id)), "emulated", {})


@examples(20)
@given(st.sampled_from([e for e in SMALL if e.instruction.family == "mma"]), SEEDS)
def test_an_unknown_mma_layout_is_numbered_by_rule(experiment, seed):
    """The rule's tables need not be the emulator's, but must predict the same structure, with every element."""
    rng = random.Random(seed)
    fragments = experiment.instruction.fragments
    tables = {f.id: emulation.shuffled(f, rng) for f in fragments}
    found = measured(experiment, Emulator(tables))
    assert found.numbering == OWN_RULE
    for f in fragments:
        assert len(found.tables[f.operand].inverse) == f.rows * f.cols * f.products
    numbered = Emulator({f.id: found.tables[f.operand] for f in fragments})
    first, second = run(experiment, Emulator(tables)), run(experiment, numbered)
    assert all(np.array_equal(first[key], second[key]) for key in "abcd")
    d = found.tables["d"]
    assert d.cells[0][:2] == (0, 0)


def test_documented_layouts_lend_their_numbers():
    tables, _ = emulation.tables(0)
    for experiment in SMALL[::9]:
        if experiment.instruction.family == "mma" and experiment.id in PINNED:  # of a form added nothing is documented
            found = measured(experiment, Emulator(tables))
            assert found.numbering == "PTX ISA"
            assert found.tables == {f.operand: tables[f.id] for f in experiment.instruction.fragments}


def test_wmma_multiplies_are_checked_against_load_and_store():
    tables, reads = emulation.tables(5)
    experiment = experiments()["wmma.mma.row.col.m16n16k16.f32.f32"]
    found = measured(experiment, Emulator(tables, reads), tables)
    unread = sum(len(lane) for lane in found.unread["a"])
    assert unread == 256  # half of the 512 slots of A are copies that this emulator does not read
    wrong = dict(tables) | {"wmma.m16n16k16.a.row.f16": emulation.shuffled(experiment.fragments[0], random.Random(9))}
    with pytest.raises(ProbeError, match=r"not the one that wmma\.load and wmma\.store predict"):
        measured(experiment, Emulator(tables, reads), wrong)
    with pytest.raises(ProbeError, match="was not measured"):
        measured(experiment, Emulator(tables, reads), {})


BROKEN = experiments()["mma.m16n8k8.row.col.f32.f16.f16.f32"]


class Broken(Emulator):
    """Changes the output of the structure launch."""

    def __init__(self, change):
        super().__init__(emulation.tables(0)[0])
        self.change = change

    def run(self, launches):
        outputs = [out.copy() for out in super().run(launches)]
        values = outputs[0].view(np.float32).reshape(launches[0].grid[1], launches[0].grid[0], -1)
        self.change(values)
        return outputs


def add_product(values):
    values[:, 1, 5] = values[:, 1, 5] + values[0, 2, :].max()


def drop_product(values):
    values[:, 1, :] = 0


def half(values):
    values[2, 3, values[0, 3].argmax()] = 0.5


def answer_to_zero(values):
    values[-1, 3, values[0, 3].argmax()] = 1.0


def poison(values):
    values.view(np.uint8)[..., -1] = 0xA5


def swap_two_slots(values):
    """One row's product with another row's: every count is right, the classes are not."""
    reached = np.flatnonzero(values[0, 1])
    other = np.flatnonzero(values[0, -1])
    values[:, 1, [reached[0], other[0]]] = values[:, 1, [other[0], reached[0]]]


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (add_product, "D answers where"),
        (drop_product, "triples where"),
        (half, "not a sum of single products"),
        (answer_to_zero, "D answers where"),
        (poison, "not a sum of single products"),
        (swap_two_slots, "not a matrix product"),
    ],
)
def test_what_is_no_matrix_product_is_an_error(change, words):
    with pytest.raises(ProbeError, match=words):
        measured(BROKEN, Broken(change))


@given(st.sampled_from([1, 4, 8, 16, 32, 64]), st.data())
def test_pack_and_unpack_are_inverse(bits, data):
    values = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=64, max_size=64))
    images = np.array([values, values[::-1]], np.uint64)
    assert unpack(pack(images, bits), bits).tolist() == images.tolist()


@pytest.mark.parametrize("bits", [1, 4, 8, 16, 32, 64])
def test_one_hot_and_codes(bits):
    hot = unpack(one_hot(64, bits, 1), bits)
    assert hot[0].sum() == 0
    assert np.array_equal(hot[1:], np.eye(64, dtype=hot.dtype))
    coded = unpack(codes(64, bits, 1), bits)
    assert coded[0].all()
    assert not coded[-1].any()
    assert ((coded[1:-1].astype(int) << np.arange(6)[:, None]).sum(0) == np.arange(64)).all()


def test_kernels_are_named_once_each():
    names = [
        k.name
        for e in experiments().values()
        for k in {launch.kernel.name: launch.kernel for launch in e.launches()}.values()
    ]
    assert len(names) == len(set(names))


def test_fragments_share_experiments():
    for fragment in inventory.fragments().values():
        row = inventory.instructions().get(fragment.experiment)
        if not (row and row.unprobed):
            assert fragment.id in {f.id for f in experiments()[fragment.experiment].fragments}
    assert dataclasses.is_dataclass(BROKEN)
