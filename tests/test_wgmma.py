"""Warpgroup multiplies: rows, registers measured with nothing assumed about a layout, operands behind descriptors."""

import json
import random
import re
import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import nvrtc
import pytest
from click.testing import CliRunner
from emulation import shuffled
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_code import TOOLS, needs_tools

from tcprobe import emit
from tcprobe.ask.behind import behind, shared
from tcprobe.ask.convert import convert
from tcprobe.ask.convert.band import band
from tcprobe.ask.descriptor import tile
from tcprobe.cli import main
from tcprobe.errors import DataError, ProbeError, UsageError
from tcprobe.isa import by_name, inventory
from tcprobe.isa.arch import arch
from tcprobe.layout.descriptor import SWIZZLES, Descriptor, decode
from tcprobe.layout.expression import values
from tcprobe.layout.table import selected, slot_table
from tcprobe.probes import descriptors, experiments
from tcprobe.probes.wgmma_kernels import kernel
from tcprobe.probes.wgmma_op import BAD, FEW_MEETINGS, SLOT_SHIFT
from tcprobe.references import cute_gmma, documented, shape_stride
from tcprobe.run.emulator import Emulator
from tcprobe.sass.cubin import assemble
from tcprobe.store import acceptance, layouts
from tcprobe.store.acceptance import misfit
from tcprobe.store.cell import cell
from tcprobe.store.cell import selected as selected_cells
from tcprobe.store.choose import alone
from tcprobe.store.results import published
from tcprobe.store.surveys import DESCRIPTORS

FORMS = inventory.instructions().parts[-1]
DENSE = [row for row in FORMS.values() if not row.metadata]
SPARSE = [row for row in FORMS.values() if row.metadata]
SMALL = [row.id for row in DENSE if row.shape.n <= 40 and row.type("a") != "b1"]
LAYERS = alone(published())
fields = st.integers(0, (1 << 14) - 1).map(lambda n: 16 * n)
any_descriptor = st.builds(Descriptor, fields, fields, st.sampled_from(sorted(SWIZZLES)), st.integers(0, 7), fields)


def tcprobe(*arguments, code=0):
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == code, (done.output, done.exception)
    assert "Traceback" not in done.output
    return done


def governing(e, rng):
    """A random table of metadata: four bits of any thread govern a chunk of any row, for each selector."""
    size = 4 // e.slot_bits
    units = [(row, col) for row in range(e.rows) for col in range(0, e.cols, size)]
    tables = []
    for _ in e.selectors:
        cells = [None] * e.slots
        rng.shuffle(units)
        for place, (row, col) in zip(rng.sample(range(e.slots // size), len(units)), units, strict=True):
            cells[place * size : place * size + size] = [(row, col + j) for j in range(size)]
        values = {name: tuple(c and c[j] for c in cells) for j, name in enumerate(("row", "col"))}
        tables.append(slot_table(e.threads, e.elements, values))
    return selected(tables)


def emulated(row, seed, emulator=Emulator):
    """(tables by operand, what an experiment concludes on a tensor core that has them)."""
    rng = random.Random(seed)
    tables = {f.operand: governing(f, rng) if f.selectors else shuffled(f, rng) for f in row.fragments}
    backend, experiment = emulator({f.id: tables[f.operand] for f in row.fragments}), experiments()[row.id]
    launches = experiment.launches()
    outputs = backend.run(launches)
    assert [len(out) for out in outputs] == [one.output_bytes for one in launches]
    return tables, experiment.conclude(experiment.decode(launches, outputs), None)


def test_counts_of_ptx_isa_9_1():
    """A in registers and A in shared memory are two forms of one name."""
    forms = {family: [(row.name, o.name) for row in FORMS.values() if row.family == family for o in row.operands
                      if o.name in ("a", "a_smem")] for family in ("wgmma", "wgmma.sp")}  # fmt: skip
    assert {family: len(set(found)) for family, found in forms.items()} == {"wgmma": 948, "wgmma.sp": 912}
    by_type = {}
    for row in FORMS.values():
        by_type.setdefault((row.family, *(row.type(o) for o in ("d", "a", "b_smem"))), []).append(row.shape.n)
    assert {len(numbers) for types, numbers in by_type.items() if types[1] != "s32"} == {32}
    assert {tuple(numbers) for types, numbers in by_type.items() if types[1] == "s32"} == {
        (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256)}  # fmt: skip
    assert len(by_type) == 17 + 16


def test_fields_of_the_rows():
    row = FORMS["wgmma.mma_async.m64n24k16.f32.f16.f16"]
    assert row.name == "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16"
    assert {f.operand: (f.rows, f.cols, f.registers, f.elements) for f in row.fragments} == {
        "a": (64, 16, 4, 8), "d": (64, 24, 12, 12)}  # fmt: skip
    assert [(one.id, one.held.rows, one.held.cols, one.held.majors) for one in row.described] == [
        (f"{row.id}.a_smem", 64, 16, ("k", "mn")), (f"{row.id}.b_smem", 16, 24, ("k", "mn"))]  # fmt: skip
    sparse = FORMS["wgmma.mma_async.sp.m64n8k64.s32.u8.s8"]
    assert {f.operand: (f.rows, f.cols, f.registers, f.selectors) for f in sparse.fragments} == {
        "a": (64, 32, 4, ()), "d": (64, 8, 4, ()), "e": (64, 32, 1, (0,))}  # fmt: skip
    assert (sparse.target.ptx, row.target.name, row.threads) == ("8.4", "sm_90a", 128)


def test_a_question_on_a_formof_a_warp_makes_none_of_these():
    inventory.instructions.cache_clear()
    inventory.of_a_warp.cache_clear()
    before = inventory.instructions().parts[-1].made
    assert by_name.matches("m16n8k16.row.col.f32.bf16.bf16.f32.a")
    assert inventory.alike(inventory.fragment("mma.m16n8k16.row.col.f32.f16.f16.f32.a"))
    assert inventory.instructions().parts[-1].made == before


@pytest.mark.parametrize(("short", "full"), [
    ("wgmma.m64n24k16.f32.f16.f16.d", "wgmma.mma_async.m64n24k16.f32.f16.f16.d"),
    ("wgmma.sp.m64n24k32.bf16.e", "wgmma.mma_async.sp.m64n24k32.f32.bf16.bf16.e"),
])  # fmt: skip
def test_shortened_names(short, full):
    assert by_name.resolve(short).id == full


def test_a_shortened_name_keeps_wgmma():
    with pytest.raises(UsageError, match="no fragment or instruction is called"):
        by_name.resolve("m64n24k16.f32.f16.f16.d")


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(SMALL), st.integers(0, 1 << 30))
def test_any_layout_is_found(name, seed):
    row = FORMS[name]
    tables, found = emulated(row, seed)
    assert dict(found.tables) == tables
    assert found.structure.triples == row.triples


def test_bits_are_found():
    tables, found = emulated(FORMS["wgmma.mma_async.m64n8k256.s32.b1.b1.and.popc"], 1)
    assert dict(found.tables) == tables


@settings(max_examples=4, deadline=None)
@given(st.sampled_from([row.id for row in SPARSE if row.shape.n == 8]), st.integers(0, 1 << 30))
def test_any_layout_and_metadata_of_a_sparse_form_are_found(name, seed):
    tables, found = emulated(FORMS[name], seed)
    assert dict(found.tables) == tables


@pytest.mark.parametrize(
    "name", ["wgmma.mma_async.sp.m64n24k16.f32.tf32.tf32", "wgmma.mma_async.sp.m64n40k32.f16.f16.f16"]
)
def test_sparse_forms_of_more_columns(name):
    row = FORMS[name]
    tables = {f.id: cute_gmma.claim(f).meant for f in row.fragments}
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
    wrong = {"doubled": answers[7, 2], "no D slot": answers[7, 1] | row.fragment("d").slots << SLOT_SHIFT,
             "no element": answers[7, 1] | BAD - 1, "another's": answers[8, 1]}  # fmt: skip
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


@pytest.mark.parametrize("number", [1, 9, 40, 51])
def test_any_address_map_is_measured(number):
    case = list(descriptors.cases(2))[number]
    row = case.instruction
    tables = {f.operand: cute_gmma.claim(f).meant for f in row.fragments}
    for emulator in (Emulator, Scrambled):
        backend = emulator({f.id: tables[f.operand] for f in row.fragments})
        if emulator is Scrambled and case.operand.held.name == "a_smem":
            continue  # the other factor is behind a descriptor as well
        run = descriptors.launch(case, tables)
        found = descriptors.measured(case, tables, backend.run([run])[0])
        for j, one in enumerate(case.descriptors):
            assert (found[j] == backend.behind(case.operand, one, case.major) // case.operand.held.slot_bits).all()
        judged = descriptors.judged(case, found)
        assert (judged.agree == judged.elements) == (emulator is Emulator)
        assert (judged.first is None) == (emulator is Emulator)


@pytest.mark.parametrize("name", ["wgmma.mma_async.m64n24k16.f32.f16.f16", "wgmma.mma_async.m64n8k32.s32.u8.s8",
                                  "wgmma.mma_async.sp.m64n24k16.f32.tf32.tf32"])  # fmt: skip
@pytest.mark.parametrize("coded", ["a_smem", "b_smem"])
def test_products_close_the_circle(name, coded):
    row = FORMS[name]
    tables = {f.operand: cute_gmma.claim(f).meant for f in row.fragments}
    backend = Emulator({f.id: tables[f.operand] for f in row.fragments})
    wrong = Emulator(
        {f.id: shuffled(f, random.Random(2)) if f.operand == "d" else tables[f.operand] for f in row.fragments}
    )
    for one in descriptors.products(row, coded, tables, 2, seed=1):
        assert one.wrong(tables["d"], backend.run([one.launch])[0]) == 0
        assert one.wrong(tables["d"], wrong.run([one.launch])[0]) == 2


# descriptors


@given(any_descriptor)
def test_a_descriptor_says_what_it_was_made_of(one):
    assert decode(one.encode()) == one
    assert one.encode() < 1 << 64


@given(any_descriptor, st.integers(0, 255), st.integers(0, 255))
def test_a_pattern_exchanges_chunks_inside_their_row(one, line, byte):
    address = one.start + one.linear("k", line, byte)
    assert one.swizzled(address) // 128 == address // 128
    assert one.swizzled(one.swizzled(address)) == address


def said(text, numbers, cols):
    """What a formula is for every col, as the reader of expressions in `lane` has it."""
    text = re.sub(r"[a-z_]+", lambda name: str(numbers.get(name[0], name[0])), text)
    starts = (text.replace("col", f"(lane + {start})") for start in range(0, cols, 32))
    return [value for line in starts for value in values(line)][:cols]


@pytest.mark.parametrize("name", ["wgmma.m64n24k16.f32.bf16.bf16.b_smem", "wgmma.m64n24k16.f32.bf16.bf16.a_smem",
                                  "wgmma.m64n8k256.b1.b_smem", "wgmma.m64n16k32.u8.s8.b_smem",
                                  "wgmma.sp.m64n8k16.tf32.b_smem", "wgmma.m64n8k8.tf32.a_smem"])  # fmt: skip
def test_the_formula_says_every_offset(name):
    one = shared(name)
    for major, swizzle in product(one.held.majors, SWIZZLES):
        given_ = {"lbo": 48, "sbo": 2064, "base_offset": 3, "start": 80}
        found = behind(one, LAYERS, major, swizzle, **given_)
        text = found.formula
        assert found.offsets == [said(text, {"row": row, **given_}, one.held.cols) for row in range(one.held.rows)]
        usual = behind(one, LAYERS, major, swizzle)
        flat = [offset for row in usual.offsets for offset in row]
        assert len(set(flat)) == len(flat) // max(1, 8 // one.held.slot_bits)  # no two elements at one place


@pytest.mark.parametrize(("kind", "major", "swizzle"), [
    *product(["bf16"], ["k", "mn"], SWIZZLES), ("tf32", "k", 128), ("e4m3", "k", 64), ("s8", "k", 0), ("b1", "k", 128),
])  # fmt: skip
def test_steps_through_a_tile_lead_to_its_elements(kind, major, swizzle):
    """Every wgmma of a tile reads elements that no other reads, and together they fill it."""
    bits = {"bf16": 16, "tf32": 32, "b1": 1}.get(kind, 8)
    k, step = 2048 // bits, 256 // bits
    found = tile((128, k), kind, major, swizzle)
    starts = [0]
    steps = found.per_k * (k // step - 1) if len(found.per_k) == 1 else found.per_k
    for one in steps:
        starts.append(starts[-1] + one)
    lines, at = np.indices((64, step))
    seen = []
    for start, block in product(starts, (0, found.per_block)):
        moved = found.descriptor._replace(start=start + block)
        pair = (lines, at * bits // 8) if major == "k" else (lines * bits // 8, at)
        seen.append(moved.offset(major, *pair) + moved.start)
    places = np.unique(np.concatenate([s.reshape(-1) for s in seen]))
    assert len(places) == 128 * k // max(1, 8 // bits)
    assert places.max() < found.bytes


@pytest.mark.parametrize(("kind", "major", "swizzle"), [
    *product(["bf16"], ["k", "mn"], SWIZZLES), ("tf32", "k", 128), ("e4m3", "k", 32), ("s8", "k", 0), ("b1", "k", 64),
])  # fmt: skip
def test_the_formula_of_a_tile_says_every_byte(kind, major, swizzle):
    bits = {"bf16": 16, "tf32": 32, "b1": 1}.get(kind, 8)
    found = tile((72 if major == "k" else 128, 2048 // bits), kind, major, swizzle, (8, 32))
    lines, k = np.indices((found.lines, found.k))
    places = found.offset(lines, k)
    assert (np.bincount(places.ravel())[:: max(1, bits // 8)] == max(1, 8 // bits)).all()  # no gap, nothing twice
    assert places.max() == found.bytes - max(1, bits // 8)
    for line in (0, 3, 17, found.lines - 1):
        text = re.sub(r"\bline\b", str(line), found.formula)
        said = [v for at in range(0, found.k, 32) for v in values(re.sub(r"\bk\b", f"(lane + {at})", text))]
        assert said[: found.k] == places[line].tolist()


@pytest.mark.parametrize(("arguments", "words"), [
    ((192, 64, "bf16", "mn", 128, (24, 32)), "end in another"),
    ((128, 32, "bf16", "k", 128), "no whole rows of 128 bytes"), ((128, 64, "e4m3", "mn", 128), "k contiguous only"),
    ((60, 64, "bf16", "k", 128), "groups of 8"), ((128, 8, "bf16", "k", 0), "a multiple of that is needed"),
    ((128, 64, "f64", "k", 128), "takes no A or B of 'f64'"), ((96, 64, "bf16", "k", 128), "no multiple of the 64"),
    ((4096, 1024, "bf16", "k", 128), "of shared memory"), ((8, 64, "bf16", "mn", 128), "take --swizzle none"),
])  # fmt: skip
def test_impossible_tiles_say_why(arguments, words):
    with pytest.raises(UsageError, match=words):
        tile(arguments[:2], *arguments[2:])


def test_descriptor_both_ways():
    found = json.loads(tcprobe("descriptor", "0x4000004000010000", "--json").stdout)
    assert found == {
        "descriptor": "0x4000004000010000",
        "start": 0,
        "lbo": 16,
        "sbo": 1024,
        "base_offset": 0,
        "swizzle": 128,
    }
    made = json.loads(tcprobe("descriptor", "--tile", "128x64", "--type", "bf16", "--json").stdout)
    assert (made["descriptor"], made["advance_k"], made["advance_block"]) == ("0x4000004000010000", [32], 8192)
    assert made["tma"] == {"data_type": "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", "box": [64, 128], "boxes": 1,
                           "box_bytes": 16384, "swizzle": "CU_TENSOR_MAP_SWIZZLE_128B"}  # fmt: skip
    assert "SBO 1024: from 8 lines" in tcprobe("descriptor", "--tile", "128x64", "--type", "bf16").stdout
    by_name = tcprobe(
        "descriptor", "--tile", "96x32", "--instruction", "wgmma.m64n96k32.f32.e4m3.e4m3", "--swizzle", "32"
    )
    assert "96 x 32 of e4m3" in by_name.stdout


@pytest.mark.parametrize("arguments", [
    ["descriptor"], ["descriptor", "x"], ["descriptor", "0x0000800000000000"], ["descriptor", "1" * 21],
    ["descriptor", "--tile", "128x64"], ["descriptor", "--tile", "128", "--type", "bf16"],
    ["descriptor", "--tile", "64x64", "--instruction", "wgmma.m64n64k16.f32.f16.f16", "--type", "bf16"],
    ["descriptor", "--tile", "64x64", "--instruction", "mma.m16n8k16.f32.f16.f16.f32"],
    ["show", "wgmma.m64n24k32.u8.u8.b_smem", "--major", "mn"],
    ["show", "wgmma.m64n24k16.f32.f16.f16.b_smem", "--lbo", "7"],
    ["show", "wgmma.m64n24k16.f32.f16.f16.b_smem", "--base-offset", "8"], ["show", "wgmma.b_smem"],
    ["show", "wgmma.m64n24k16.f32.f16.f16.d", "--swizzle", "128"],
])  # fmt: skip
def test_mistakes_in_the_call(arguments):
    assert tcprobe(*arguments, code=2).output


def test_show_json_of_an_operand_behind_a_descriptor():
    name = "wgmma.mma_async.m64n24k16.f32.bf16.bf16.b_smem"
    found = json.loads(tcprobe("show", name, "--swizzle", "128", "--major", "k", "--lbo", "16", "--sbo", "1024",
                               "--base-offset", "0", "--start", "0", "--json").stdout)  # fmt: skip
    assert (found["operand"], found["threads"], found["rows"], found["cols"]) == ("b_smem", 128, 16, 24)
    assert (len(found["offsets"]), len(found["offsets"][0])) == (16, 24)
    assert found["offsets"][8][1] == 128 + 0  # chunk 1 of row 1 is where chunk 0 would be
    assert found["instruction"] == "wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16"
    bits = json.loads(tcprobe("show", "wgmma.m64n8k256.b1.a_smem", "--json").stdout)
    assert (len(bits["offsets"]), len(bits["offsets"][0]), bits["offsets"][0][:9]) == (64, 256, [0] * 8 + [1])


def test_trace_goes_through_shared_memory():
    asked = ("trace", "wgmma.m64n24k16.f32.bf16.bf16", "--row", "3", "--col", "5", "--swizzle", "128", "--json")
    found = json.loads(tcprobe(*asked).stdout)
    shown = json.loads(tcprobe("show", "wgmma.m64n24k16.f32.bf16.bf16.b_smem", "--swizzle", "128", "--json").stdout)
    assert [m["b_offsets"] for m in found["meetings"]] == [[row[5]] for row in shown["offsets"]]
    assert [(m["a"][0]["row"], m["a"][0]["col"]) for m in found["meetings"]] == [(3, k) for k in range(16)]
    sparse = json.loads(tcprobe("trace", "wgmma.sp.m64n8k32.f32.f16.f16", "--row", "0", "--col", "0", "--selector", "0",
                                "--json").stdout)  # fmt: skip
    assert [m["k"] for m in sparse["meetings"]] == [[s // 2 * 4 + j for j in range(4)] for s in range(16)]


def test_list_has_operands_behind_descriptors():
    found = json.loads(tcprobe("list", "--json", "--family", "wgmma").stdout)
    assert len({(e["instruction"], e["operand"]) for e in found if e["operand"] in ("a", "a_smem")}) == 948
    assert {e["shape"]["n"] for e in found} == set(range(8, 257, 8))
    assert {tuple(e["majors"]) for e in found if e["operand"] == "b_smem"} == {("k",), ("k", "mn")}


# references and layouts


def test_references_state_tables_that_can_be():
    device, silent = arch("sm_90"), set()
    for row in FORMS.values():
        for fragment in row.fragments if row.shape.n in (8, 24, 256) else ():
            stated = documented(fragment, device)
            if stated is None:
                silent.add(fragment.shape.k)
            else:
                assert misfit(fragment, stated[1].meant) is None
    assert silent == {256}  # b1


@pytest.mark.parametrize("n", [8, 24, 256])
def test_a_layout_is_written_by_its_bases(n):
    fragment = inventory.fragment(f"wgmma.mma_async.m64n{n}k16.f32.f16.f16.d")
    table = documented(fragment, arch("sm_90"))[1].meant
    written = layouts.written(table)
    assert layouts.read(json.loads(json.dumps(written))) == table
    assert len(json.dumps(written)) < 400


@pytest.mark.parametrize("damage", [
    {"threads": 127}, {"elements": 0}, {"outputs": ["col", "row"]}, {"origin": [0]}, {"origin": [0, 1 << 30]},
    {"bases": {"lane": [], "i": []}}, {"bases": []}, {"extra": 1}, {"threads": "128"}, {"elements": 1 << 40},
])  # fmt: skip
def test_a_damaged_layout_is_refused(damage):
    fragment = inventory.fragment("wgmma.mma_async.m64n24k16.f32.f16.f16.d")
    written = layouts.written(documented(fragment, arch("sm_90"))[1].meant)
    with pytest.raises((DataError, TypeError, KeyError)):  # what `documents.naming` turns into a DataError
        layouts.read({**written, **damage})


# formats


@pytest.mark.parametrize("n", [8, 24, 40, 256])
def test_cute_layouts_lead_to_every_element(n):
    from tcprobe.emit.cute import thread_value

    table = cell(inventory.fragment(f"wgmma.mma_async.m64n{n}k16.f32.f16.f16.d"), "sm_90", published())
    shape, stride = thread_value(table)
    layout = [shape_stride.L(s, d) for s, d in zip(shape, stride, strict=True)]
    found = [divmod(shape_stride.apply(layout[0], lane) + shape_stride.apply(layout[1], i), 64)
             for lane in range(128) for i in range(n // 2)]  # fmt: skip
    assert [(row, col) for col, row in found] == list(table.table.cells)


def test_triton_tells_lane_and_warp_apart():
    table = cell(inventory.fragment("wgmma.mma_async.m64n8k16.f32.f16.f16.d"), "sm_90", published())
    text = emit.emit("triton", [table])
    assert "lane_bases=[[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]" in text
    assert "warp_bases=[[16, 0], [32, 0]]" in text


@pytest.mark.skipif(sys.platform != "linux", reason="the NVRTC wheel that the dev extra names is a Linux one")
@pytest.mark.parametrize("n", [24, 256])
def test_the_header_proves_itself_for_a_warpgroup(n):
    names = [f"wgmma.mma_async.m64n{n}k16.f32.f16.f16.{operand}" for operand in "ad"]
    text = emit.emit("cuda", [cell(inventory.fragment(name), "sm_90", published()) for name in names])
    assert nvrtc.compile_cuda(nvrtc.library(), text, "-arch=sm_90a", "-std=c++17") == (True, "")
    assert "static constexpr int lanes = 128;" in text


@pytest.mark.parametrize(("n", "kind", "words"), [(16, "f32.f16.f16", "renamed"), (48, "f32.bf16.bf16", "renamed")])
def test_d_becomes_a_of_the_next_multiply(n, kind, words):
    d, a = (cell(inventory.fragment(f"wgmma.mma_async.m64n{n}k16.{kind}.{o}"), "sm_90", published()) for o in "da")
    found = convert(d, a)
    assert words in found.summary
    assert (found.tiling.rows, found.tiling.cols, found.costs) == (16, n, {"cvt": n // 4})
    with pytest.raises(UsageError, match="between warps"):
        convert(d, a, transpose=True)


def test_warps_that_hold_no_bands_are_refused():
    table = cell(inventory.fragment("wgmma.mma_async.m64n8k16.f32.f16.f16.d"), "sm_90", published())
    odd = replace(table, table=shuffled(table.fragment, random.Random(1)))
    with pytest.raises(UsageError, match="does not hold the band"):
        band(odd)


# what is published


def test_everything_is_published_and_agrees():
    body = DESCRIPTORS.read(published(), "sm_90")
    assert all(case["agree"] == case["elements"] for case in body["cases"])
    assert (body["method"], body["products"]["wrong"]) == ("live", 0)
    assert sum(case["descriptors"] for case in body["cases"]) > 5000
    told = [case["base_offset"] for case in body["cases"] if case["swizzle"] in (64, 128)]
    assert all(of["subtracted"][0] == of["subtracted"][1] > 0 and not of["added"][0] for of in told if of["added"][1])
    for row in FORMS.values():
        for one in row.described:
            assert behind(one, LAYERS, "k", 128).measured, one.id


def test_all_n_have_one_formula():
    for kind in ("f32.f16.f16", "f16.f16.f16", "f32.bf16.bf16"):
        large = published().table("sm_90", "live", inventory.fragment(f"wgmma.mma_async.m64n256k16.{kind}.d"))
        for n in range(8, 257, 8):
            small = published().table("sm_90", "live", inventory.fragment(f"wgmma.mma_async.m64n{n}k16.{kind}.d"))
            assert all(
                small.cells[lane * n // 2 + i] == large.cells[lane * 128 + i] for lane in (0, 77) for i in range(n // 2)
            )


@needs_tools
def test_ptxas_takes_documented_selectors_only():
    """So there is no undocumented one to find out about, as mma.sp has."""
    rows = [row for row in SPARSE if row.shape.n == 8]
    meant = {(row.id, s): kernel(row, "raw", selector=s) for row in rows for s in range(4)}
    _, refused = assemble(TOOLS, list(meant.values()), arch("sm_90"))
    for (name, selector), one in meant.items():
        assert (one.name in refused) == (selector not in FORMS[name].fragment("e").selectors), one.name


@needs_tools
def test_ptxas_takes_the_snippets(tmp_path):
    """Of every type for the narrowest and the widest N, and N = 24: dense ones in one text, sparse by selector."""
    cells = {row: [cell(fragment, "sm_90", published()) for fragment in row.fragments]
             for row in (row for row in FORMS.values() if row.shape.n in (8, 24, 256))}  # fmt: skip
    texts = [emit.emit("ptx", [one for row, held in cells.items() if not row.metadata for one in held])]
    for row in (row for row in cells if row.metadata):
        chosen = (selected_cells(cells[row], selector) for selector in row.metadata.selectors)
        texts += [f"{{\n{emit.emit('ptx', one)}\n}}" for one in chosen]
    source, text = tmp_path / "snippets.ptx", "\n".join(texts)
    source.write_text(f".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry f() {{\n{text}\nret;\n}}\n")
    done = subprocess.run([TOOLS.ptxas, "-arch", "sm_90a", str(source), "-o", str(tmp_path / "x.cubin")],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[:2000]
    assert text.count("wgmma.fence") > 90


def test_a_warpgroups_multiply_says_where_its_b_is():
    text = tcprobe("emit", "wgmma.m64n24k16.f32.f16.f16", "--to", "ptx").stdout
    assert "%d10, %d11}, {%a0, %a1, %a2, %a3}, %b_desc, %add, 1, 1, 0;" in text
    assert "D[8][17]" in next(line for line in text.splitlines() if "%d11;" in line)
    assert (
        "has a factor in shared memory"
        in tcprobe("emit", "wgmma.m64n24k16.f32.f16.f16", "--to", "tinygrad", code=2).stderr
    )


def test_results_stay_small():
    files = [p for p in published().root.rglob("*.json") if "wgmma" in p.name or p.parent.name == "layouts"]
    assert max(p.stat().st_size for p in files) <= 64 << 10


def test_descriptors_that_cannot_be_are_refused():
    body = DESCRIPTORS.read(published(), "sm_90")
    for change in ({"arch": "sm_80"}, {"method": "guess"}, {"cases": [{**body["cases"][0], "agree": 1 << 40}]},
                   {"cases": [{**body["cases"][0], "operand": "d"}]}, {"extra": 1}):  # fmt: skip
        with pytest.raises(DataError):
            acceptance.descriptors({**body, **change}, "sm_90")
