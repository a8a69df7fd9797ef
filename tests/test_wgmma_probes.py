"""Probes of warpgroup multiplies on the emulator: registers and address maps, with nothing assumed about a layout."""

import random

import numpy as np
import pytest
from bench import concluded
from emulation import shuffled
from hypothesis import given
from hypothesis import strategies as st
from machine_code import TOOLS, needs_tools
from sampling import examples
from warpgroup import FORMS, SMALL, SPARSE, emulated, governing

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import arch
from tcprobe.probes import descriptors, dialogues, experiments
from tcprobe.probes.descriptors import DescriptorExperiment, ProductExperiment
from tcprobe.probes.wgmma import BAD, FEW_MEETINGS, SLOT_SHIFT, kernel
from tcprobe.references import cute
from tcprobe.run.emulator import Emulator
from tcprobe.sass.cubin import assemble
from tcprobe.store.kinds.descriptors import subject


@examples(8)
@given(st.sampled_from(SMALL), st.integers(0, 1 << 30))
def test_any_layout_is_found(name, seed):
    row = FORMS[name]
    tables, found = emulated(row, seed)
    assert dict(found.tables) == tables
    assert found.structure.triples == row.triples


@pytest.mark.full
def test_bits_are_found():
    tables, found = emulated(FORMS["wgmma.mma_async.m64n8k256.s32.b1.b1.and.popc"], 1)
    assert dict(found.tables) == tables


@pytest.mark.full
@examples(4)
@given(st.sampled_from([row.id for row in SPARSE if row.shape.n == 8]), st.integers(0, 1 << 30))
def test_any_layout_and_metadata_of_a_sparse_form_are_found(name, seed):
    tables, found = emulated(FORMS[name], seed)
    assert dict(found.tables) == tables


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["wgmma.mma_async.sp.m64n24k16.f32.tf32.tf32", "wgmma.mma_async.sp.m64n40k32.f16.f16.f16"]
)
def test_sparse_forms_of_more_columns(name):
    row = FORMS[name]
    tables = {f.id: cute.warpgroup_claim(f).meant for f in row.fragments}
    experiment, backend = experiments()[name], Emulator(tables)
    launches = experiment.launches()
    found = experiment.conclude(experiment.decode(launches, backend.run(launches)), None)
    assert {f"{name}.{operand}": table for operand, table in found.tables.items()} == tables


class Elsewhere(Emulator):
    """A tensor core on which a descriptor leads to other bytes: every matrix comes from a permuted memory."""

    def behind(self, operand, descriptor, major):
        bits = super().behind(operand, descriptor, major)
        return bits ^ 128 if operand.held.name == "b_smem" else bits


def test_another_address_map_is_no_silent_wrong_answer():
    """The registers are numbered by addresses: elements elsewhere are found elsewhere, or contradict themselves."""
    row = FORMS["wgmma.mma_async.m64n8k16.f32.f16.f16"]
    try:
        tables, found = emulated(row, 3, Elsewhere)
        assert dict(found.tables) != tables
    except ProbeError:
        pass


@pytest.mark.parametrize("at", [0, 1])
def test_answers_that_contradict_themselves_are_refused(at):
    row = FORMS["wgmma.mma_async.m64n8k16.f32.f16.f16"]
    rng = random.Random(5)
    experiment, backend = experiments()[row.id], Emulator({f.id: shuffled(f, rng) for f in row.fragments})
    launches = experiment.launches()
    outputs = [out.copy() for out in backend.run(launches)]
    outputs[at][4 if at else 8] ^= 2
    with pytest.raises(ProbeError):
        experiment.decode(launches, outputs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("word", ["doubled", "no D slot", "no element", "another's"])
@pytest.mark.parametrize("image", [0, 3, -1])
def test_few_answers_under_metadata_that_are_not_all_of_them_are_refused(word, image):
    row = FORMS["wgmma.mma_async.sp.m64n8k16.f32.tf32.tf32"]
    rng = random.Random(5)
    tables = {f.id: governing(f, rng) if f.selectors else shuffled(f, rng) for f in row.fragments}
    experiment = experiments()[row.id]
    launches = experiment.launches()
    outputs = [out.copy() for out in Emulator(tables).run(launches)]
    answers = outputs[1].view(np.uint32).reshape(-1, row.fragment("a").slots, 1 + FEW_MEETINGS)[image]
    wrong = {
        "doubled": answers[7, 2],
        "no D slot": answers[7, 1] | row.fragment("d").slots << SLOT_SHIFT,
        "no element": answers[7, 1] | BAD - 1,
        "another's": answers[8, 1],
    }
    answers[7, 1] = wrong[word]
    with pytest.raises(ProbeError):
        experiment.decode(launches, outputs)


class Scrambled(Emulator):
    """Every element at a random place of memory, another one for each descriptor."""

    def behind(self, operand, descriptor, major):
        held = operand.held
        rng = np.random.default_rng(descriptor.encode() % (1 << 32))
        count = descriptors.CODED_BYTES * 8 // held.slot_bits
        return rng.choice(count, (held.rows, held.cols), replace=False) * held.slot_bits


@pytest.mark.full
@pytest.mark.parametrize("number", [1, 9, 40, 51])
def test_any_address_map_is_measured(number):
    case = list(descriptors.cases(2))[number]
    row = case.instruction
    tables = {f.operand: cute.warpgroup_claim(f).meant for f in row.fragments}
    for emulator in (Emulator, Scrambled):
        backend = emulator({f.id: tables[f.operand] for f in row.fragments})
        if emulator is Scrambled and case.operand.held.name == "a_smem":
            continue  # the other factor is behind a descriptor as well
        run = descriptors.launch(case, tables)
        found = descriptors.numbers_in_memory(case, tables, backend.run([run])[0])
        for j, one in enumerate(case.descriptors):
            assert (found[j] == backend.behind(case.operand, one, case.major) // case.operand.held.slot_bits).all()
        judged = descriptors.judge(case, found)
        assert (judged.agree == judged.elements) == (emulator is Emulator)
        assert (judged.first is None) == (emulator is Emulator)


@pytest.mark.parametrize(
    "name",
    [
        "wgmma.mma_async.m64n24k16.f32.f16.f16",
        "wgmma.mma_async.m64n8k32.s32.u8.s8",
        "wgmma.mma_async.sp.m64n24k16.f32.tf32.tf32",
    ],
)
@pytest.mark.parametrize("coded", ["a_smem", "b_smem"])
def test_products_close_the_circle(name, coded):
    row = FORMS[name]
    tables = {f.operand: cute.warpgroup_claim(f).meant for f in row.fragments}
    backend = Emulator({f.id: tables[f.operand] for f in row.fragments})
    wrong = Emulator(
        {f.id: shuffled(f, random.Random(2)) if f.operand == "d" else tables[f.operand] for f in row.fragments}
    )
    for one in descriptors.products(row, coded, tables, 2, seed=1):
        assert one.wrong(tables["d"], backend.run([one.launch])[0]) == 0
        assert one.wrong(tables["d"], wrong.run([one.launch])[0]) == 2


def by_reference(fragment):
    """The table of a register fragment."""
    return cute.warpgroup_claim(fragment).meant


class Referred(Emulator):
    """The registers of every form as the reference has them."""

    def __init__(self):
        super().__init__({})

    def table(self, fragment):
        return by_reference(fragment)

    read = table


class Shifted(Referred):
    """As if descriptors led to the neighbouring chunk of 16 bytes."""

    def behind(self, operand, descriptor, major):
        return super().behind(operand, descriptor, major) ^ 128


@pytest.mark.parametrize("number", [1, 40])
def test_what_descriptors_lead_to_is_concluded(number):
    case = list(descriptors.cases(2))[number]
    found = concluded(DescriptorExperiment(case), Referred()).case
    assert (found.descriptors, found.agree) == (len(case.descriptors), found.elements)
    assert subject(found) == DescriptorExperiment(case).id
    assert concluded(DescriptorExperiment(case), Shifted()).case.agree == 0


def test_products_are_concluded():
    row = FORMS["wgmma.mma_async.m64n24k16.f32.f16.f16"]
    found = concluded(ProductExperiment(row, 1), Referred()).products
    assert (found.products, found.wrong) == (6, 0)
    assert concluded(ProductExperiment(row, 1), Shifted()).products.wrong > 0


@pytest.mark.full
def test_every_experiment_has_a_subject_of_its_own():
    ids = [experiment.id for experiment in descriptors.experiments()]
    assert len(set(ids)) == len(ids) == len(dialogues("descriptors"))


# descriptors


@pytest.mark.full
@needs_tools
def test_ptxas_takes_documented_selectors_only():
    """So there is no undocumented one to find out about, as mma.sp has."""
    rows = [row for row in SPARSE if row.shape.n == 8]
    meant = {(row.id, s): kernel(row, "raw", selector=s) for row in rows for s in range(4)}
    _, refused = assemble(TOOLS, list(meant.values()), arch("sm_90"))
    for (name, selector), one in meant.items():
        assert (one.name in refused) == (selector not in FORMS[name].fragment("e").selectors), one.name
