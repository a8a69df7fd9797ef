"""Sparse multiplies on an emulated tensor core with any layouts and any metadata map; their rows and references."""

import random
from collections import Counter

import machine_code
import numpy as np
import pytest
from emulation import SM_90, shuffled
from hypothesis import Phase, given
from hypothesis import strategies as st
from sampling import examples
from sparse_layouts import CONTEXT, KINDS, SPARSE, documented, layouts, metadata_map, outputs

from tcprobe.errors import ProbeError
from tcprobe.isa import arch, inventory
from tcprobe.isa.instruction import emulated, is_native, sparsity, tensor_opcodes
from tcprobe.layout.table import Table
from tcprobe.probes import experiments
from tcprobe.probes.experiment import OWN_RULE
from tcprobe.probes.ptx import Launch
from tcprobe.probes.slots import pack
from tcprobe.probes.sparse import b_images, kernel, product_kernel, random_metadata
from tcprobe.references import Claim, cute, ptx_isa
from tcprobe.run.emulator import Emulator
from tcprobe.run.runner import conclude
from tcprobe.sass.cubin import assemble
from tcprobe.sass.lowering import lower
from tcprobe.store import findings
from tcprobe.store.acceptance import misfit
from tcprobe.store.finding import Key
from tcprobe.store.results import Results, published


def measured(row, tables):
    experiment = experiments()[row.id]
    return experiment.conclude(experiment.decode(*outputs(experiment, tables)), CONTEXT)


def random_product(row, selector, seed, images=3) -> Launch:
    """Random zeros and ones, few of them in A, under random legal metadata."""
    generator = np.random.default_rng(seed)
    chances = {"a": 0.05, "b": 0.5, "c": 0.3}
    given = [
        pack((generator.random((images, row.fragment(o).slots)) < p) * row.fragment(o).one, row.fragment(o).slot_bits)
        for o, p in chances.items()
    ]
    given.append(random_metadata(sparsity(row.fragment("e")), images, generator))
    d = row.fragment("d")
    return Launch(product_kernel(row, selector), (images, 1, 1), tuple(given), 0, images * d.slots * d.slot_bits // 8)


def same_products(row, one, two, seed) -> bool:
    """Whether two sets of tables give the same D for random matrices and metadata, under every selector."""
    launches = [random_product(row, selector, seed) for selector in row.fragment("e").selectors]
    return all(
        (Emulator(one, name="sm_120").run([x])[0] == Emulator(two, name="sm_120").run([x])[0]).all() for x in launches
    )


@examples(6, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.sampled_from(["tf32", "f16", "f32", "bytes", "nibbles"]), st.integers(0, 1 << 30))
def test_any_layout_and_metadata_map_is_found_up_to_numbering(kind, seed):
    row = SPARSE[KINDS[kind]]
    tables = layouts(row, seed)
    found = measured(row, tables)
    concluded = {f.id: found.tables[f.operand] for f in row.fragments}
    assert found.numbering == OWN_RULE
    assert found.structure.triples == row.triples
    assert same_products(row, tables, concluded, seed)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_documented_layouts_are_found_with_their_numbers(kind):
    row = SPARSE[KINDS[kind]]
    tables = documented(row, 7)
    if any(isinstance(ptx_isa.claim(row.fragment("b"), SM_90), str) for _ in "b"):
        tables[row.fragment("b").id] = layouts(row, 8)[row.fragment("b").id]
    found = measured(row, tables)
    assert found.numbering == "PTX ISA"
    for fragment in row.fragments:
        assert found.tables[fragment.operand] == tables[fragment.id], fragment.id


def test_the_rows_are_those_of_the_isa():
    by_variant = Counter(row.name.split(".sync")[0] for row in SPARSE.values())
    assert by_variant == {"mma.sp": 28, "mma.sp::ordered_metadata": 82}
    native = [row for row in SPARSE.values() if not row.kind]
    assert (len(native), sum(len(row.fragment("e").selectors) for row in native)) == (60, 108)
    for row in SPARSE.values():
        a, e = row.fragment("a"), row.fragment("e")
        assert (a.cols, a.copies, e.registers) == (row.shape.k // 2, 1, 1), row.id
        # the lanes of all selectors together hold what all of A needs
        assert len(e.selectors) * e.rows * e.cols // e.span * e.slot_bits == 32 * 32, row.id


def test_what_ptx_and_cute_say_is_a_bijection_and_the_same():
    said = Counter()
    for row in SPARSE.values():
        for fragment in row.fragments:
            claims = [source.claim(fragment, SM_90) for source in (ptx_isa, cute)]
            tables = [claim.meant for claim in claims if isinstance(claim, Claim)]
            said[fragment.operand] += isinstance(claims[0], Claim)
            assert all(misfit(fragment, table) is None for table in tables), fragment.id
            assert len(tables) < 2 or tables[0] == tables[1], fragment.id
    assert said == {"a": 110, "b": 24, "c": 110, "d": 110, "e": 0}
    assert "figure" in ptx_isa.claim(SPARSE[KINDS["f16"]].fragment("e"), SM_90)


def flip(raw, place, bit):
    """The outputs with one bit changed."""
    changed = [x.copy() for x in raw]
    changed[place[0]][place[1]] ^= 1 << bit
    return changed


@pytest.fixture(scope="module")
def small():
    row = SPARSE[KINDS["tf32"]]
    experiment = experiments()[row.id]
    return experiment, *outputs(experiment, documented(row, 3))


@examples(60)
@given(st.data())
def test_an_answer_that_is_another_is_refused(small, data):
    """Every bit that the kernel writes is looked at: none can be changed unnoticed."""
    experiment, launches, raw = small
    number = data.draw(st.integers(0, len(raw) - 1))
    byte, bit = data.draw(st.integers(0, len(raw[number]) - 1)), data.draw(st.integers(0, 7))
    bits = 2 * b_images(experiment.instruction)
    if byte % 4 * 8 + bit in range(bits, 31):  # the kernel leaves these zero, whatever it measures
        return
    with pytest.raises(ProbeError):
        experiment.conclude(experiment.decode(launches, flip(raw, (number, byte), bit)), CONTEXT)


def test_a_slot_that_obeys_two_fields_is_refused(small):
    experiment, launches, raw = small
    words = [x.copy() for x in raw]
    blocks = words[0].reshape(18, -1)  # metadata images
    blocks[5], blocks[6] = blocks[6].copy(), blocks[5].copy()
    with pytest.raises(ProbeError, match="does not obey one field"):
        experiment.decode(launches, words)


def test_selectors_that_change_the_product_are_refused(small):
    experiment, launches, raw = small
    other = experiments()[experiment.id].launches()[1]
    row = experiment.instruction
    turned = Emulator(documented(row, 3) | {row.fragment("b").id: shuffled(row.fragment("b"), random.Random(1))})
    with pytest.raises(ProbeError, match="selector 1 changes"):
        experiment.decode(launches, [raw[0], turned.run([other])[0], *raw[2:]])


def test_metadata_of_a_file_must_govern_every_unit_once():
    e = SPARSE[KINDS["nibbles"]].fragment("e")
    table = metadata_map(e, random.Random(5))
    assert misfit(e, table) is None
    wrong = table.with_values(
        {n: (None, *v[1:]) if v[0] is not None else (v[-1], *v[1:]) for n, v in table.values.items()}
    )
    twice = table.with_values(
        {"row": tuple(0 if v is not None else None for v in table.values["row"]), "col": table.values["col"]}
    )
    assert "governed once" in misfit(e, twice)
    assert misfit(e, wrong) is None or "governed once" in misfit(e, wrong)
    assert "selectors" in misfit(e, table.selection(0))
    assert Table.from_json(table.to_json()) == table


@pytest.mark.full
@machine_code.needs_tools
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_120a"])
def test_ptxas_takes_every_probe_at_its_least_target_and_not_below(target):
    rows = [row for row in SPARSE.values() if row.target.name == target]
    least = arch.arch(target.rstrip("af"))
    below = {"sm_80": "sm_75", "sm_89": "sm_87", "sm_120a": "sm_90"}[target]
    kernels = [make(row, s) for row in rows for s in row.fragment("e").selectors for make in (kernel, product_kernel)]
    assert not assemble(machine_code.TOOLS, kernels, least)[1]
    refused = assemble(machine_code.TOOLS, kernels, arch.arch(below))[1]
    assert set(refused) == {k.name for k in kernels}


def test_a_measurement_is_stored_and_read_again(tmp_path):
    row = SPARSE[KINDS["tf32"]]
    experiment = experiments()[row.id]
    reading = experiment.decode(*outputs(experiment, documented(row, 3)))
    origin = dict.fromkeys(("device", "driver", "cuda", "compiler", "ptx", "tcprobe"), "x")
    found = conclude(experiment, reading, CONTEXT, "emulated", origin)
    Results(tmp_path).write(found)
    assert Results(tmp_path).measurement("sm_90", "emulated", row.id) == found
    assert set(Results(tmp_path).named_layouts("sm_90", "emulated", row.id)) == set("abcde")


def test_what_is_said_to_be_emulated_is_what_machine_code_shows():
    """Of every sparse form, a warpgroup's of n8 too, whose opcodes are published: in its lowering or with its cost."""
    told, wrong = Counter(), []
    for device in arch.ARCHS:
        saved = published().lowering(device.name) or {"instructions": {}}
        shown = {id_: low["opcodes"] for id_, low in saved["instructions"].items()}
        for row in (row for row in inventory.instructions().values() if row.metadata and row.target.on(device)):
            cost = findings.read(published(), Key("cost", device.name, "live", row.id)) if row.shape.n == 8 else None
            opcodes = tensor_opcodes(cost.body.opcodes if cost and cost.body else shown.get(row.id, ()))
            told[row.family] += bool(opcodes)
            wrong += [(row.id, device.name)] if opcodes and is_native(row, opcodes) == emulated(row, device) else []
    assert (wrong, sorted(family for family, n in told.items() if n > 5)) == (
        [],
        ["mma.sp", "mma.sp.block_scale", "wgmma.sp"],
    )


@pytest.mark.full
@machine_code.needs_tools
@pytest.mark.parametrize("name", ["sm_89", "sm_90", "sm_120"])
def test_what_is_emulated_is_what_becomes_other_opcodes(name):
    device = arch.arch(name)
    rows = [row for row in SPARSE.values() if row.target.on(device)]
    found = lower(machine_code.TOOLS, device, rows)
    assert all(found[row.id].native(row) != emulated(row, device) for row in rows)


@machine_code.needs_tools
def test_ptxas_takes_selectors_that_are_not_documented_of_one_form_only():
    """PTX documents 0 and 1; an H200 stops with an illegal instruction at 2 and 3, so no probe has them."""
    row = SPARSE[KINDS["wide f16"]]
    other = SPARSE["mma.sp.m16n8k32.row.col.f16.f16.f16.f16"]
    kernels = [product_kernel(r, selector) for r in (row, other) for selector in (2, 3)]
    refused = assemble(machine_code.TOOLS, kernels, SM_90)[1]
    assert set(refused) == {k.name for k in kernels[2:]}
    assert row.fragment("e").selectors == other.fragment("e").selectors == (0, 1)
