"""Sparse multiplies on an emulated tensor core with any layouts and any metadata map; their rows and references."""

import json
import random
from collections import Counter

import machine_code
import numpy as np
import pytest
from click.testing import CliRunner
from emulation import SM_90, shuffled, table_of
from hypothesis import Phase, given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.cli import main
from tcprobe.errors import ProbeError
from tcprobe.isa import arch, inventory
from tcprobe.isa.native import is_native, tensor
from tcprobe.isa.sparsity import emulated, sparsity
from tcprobe.layout.predicted import predict_hash
from tcprobe.layout.table import Table, selected
from tcprobe.probes import experiments
from tcprobe.probes.experiment import OWN_RULE, Context
from tcprobe.probes.ptx import Launch
from tcprobe.probes.slots import pack
from tcprobe.probes.sparse import kernel, product_kernel
from tcprobe.probes.sparse_images import b_images, random_metadata
from tcprobe.references import Claim, cute, ptx_isa
from tcprobe.run.conclude import conclude
from tcprobe.run.emulator import Emulator
from tcprobe.sass.cubin import assemble
from tcprobe.sass.lowering import lower
from tcprobe.store import findings
from tcprobe.store.acceptance import misfit
from tcprobe.store.finding import Key
from tcprobe.store.results import Results, published

SPARSE = {row.id: row for row in inventory.instructions().values() if row.family == "mma.sp"}
# one of each shape and width, the small ones first
KINDS = {
    "tf32": "mma.sp.m16n8k8.row.col.f32.tf32.tf32.f32",
    "f16": "mma.sp.m16n8k16.row.col.f16.f16.f16.f16",
    "f32": "mma.sp::ordered_metadata.m16n8k16.row.col.f32.bf16.bf16.f32",
    "wide tf32": "mma.sp.m16n8k16.row.col.f32.tf32.tf32.f32",
    "bytes": "mma.sp.m16n8k32.row.col.s32.u8.s8.s32",
    "wide f16": "mma.sp.m16n8k32.row.col.f32.f16.f16.f32",
    "nibbles": "mma.sp.m16n8k64.row.col.s32.s4.u4.s32",
    "fp8": "mma.sp::ordered_metadata.m16n8k64.row.col.kind::f8f6f4.f16.e2m1.e3m2.f16",
    "wide nibbles": "mma.sp.m16n8k128.row.col.s32.s4.s4.s32",
}
CONTEXT = Context(SM_90, lambda _: None)


def metadata_map(e, rng: random.Random) -> Table:
    """By selector any field for each unit of A, at most one each."""
    units = [row * e.cols + col for row in range(e.rows) for col in range(0, e.cols, e.span)]
    tables = []
    for _ in e.selectors:
        held = [*units, *[None] * (e.slots - len(units))]
        rng.shuffle(held)
        tables.append(table_of(e, held))
    return selected(tables)


def layouts(row, seed: int) -> dict[str, Table]:
    rng = random.Random(seed)
    return {f.id: metadata_map(f, rng) if f.operand == "e" else shuffled(f, rng) for f in row.fragments}


def documented(row, seed: int) -> dict[str, Table]:
    """As PTX states it; where it shows figures only, at random."""
    claims = {f.id: ptx_isa.claim(f, SM_90) for f in row.fragments}
    return {
        id_: claim.meant if isinstance(claim, Claim) else table
        for (id_, table), claim in zip(layouts(row, seed).items(), claims.values(), strict=True)
    }


def outputs(experiment, tables):
    launches = experiment.launches()
    return launches, Emulator(tables, name="sm_120").run(launches)


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


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with one form of each index width, measured on the emulator by the layouts that PTX states."""
    root = tmp_path_factory.mktemp("saved")
    for kind in ("tf32", "f16", "nibbles"):
        row = SPARSE[KINDS[kind]]
        experiment = experiments()[row.id]
        reading = experiment.decode(*outputs(experiment, documented(row, 3)))
        origin = dict.fromkeys(("device", "driver", "cuda", "compiler", "ptx", "tcprobe"), "x")
        Results(root).write(conclude(experiment, reading, CONTEXT, "emulated", origin))
    return root


def said(saved, *words, code=0):
    done = CliRunner().invoke(main, [*words, "--results", str(saved), "--only"])
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "bits", "count", "selectors"), [("tf32", 4, 8, 4), ("f16", 2, 16, 4), ("nibbles", 2, 16, 2)]
)
def test_show_prints_metadata_by_selector(saved, kind, bits, count, selectors):
    row = SPARSE[KINDS[kind]]
    e = row.fragment("e")
    found = [json.loads(line) for line in said(saved, "show", e.id, "--json").splitlines()]
    assert [(x["operand"], x["selector"], x["index_bits"], x["elements"]) for x in found] == [
        ("e", n, bits, count) for n in range(selectors)
    ]
    table = documented(row, 3)[e.id]
    for x in found:
        chosen = table.selection(x["selector"])
        for lane, fields in enumerate(x["table"]):
            held = [chosen.at(lane=lane, i=i) for i in range(count)]
            assert fields == ([h and [h["row"], h["col"]] for h in held] if any(held) else None)
    assert json.loads(said(saved, "show", e.id, "--json", "--selector", "1")) == found[1]
    assert "no selector 7: it has 0, 1" in said(saved, "show", e.id, "--selector", "7", code=2)
    assert "it has none" in said(saved, "show", row.fragment("d").id, "--selector", "0", code=2)
    assert "selector 1: index fields" in said(saved, "show", e.id, "--selector", "1")


def test_list_has_metadata_with_its_selectors():
    found = json.loads(CliRunner().invoke(main, ["list", "--family", "mma.sp", "--json"]).output)
    assert len(found) == 5 * 110
    e = next(x for x in found if x["id"] == SPARSE[KINDS["tf32"]].fragment("e").id)
    assert (e["selectors"], e["index_bits"], e["role"]) == ([0, 1, 2, 3], 4, "metadata")


@pytest.mark.full
def test_trace_leads_through_the_metadata(saved):
    row = SPARSE[KINDS["f16"]]
    tables = documented(row, 3)
    found = json.loads(said(saved, "trace", row.id, "--row", "3", "--col", "2", "--selector", "2", "--json"))
    assert found["selector"] == 2
    e = tables[row.fragment("e").id].selection(2)
    for stored, meeting in enumerate(found["meetings"]):
        assert meeting["k"] == [stored // 2 * 4 + index for index in range(4)]
        assert [(h["lane"], h["i"]) for h in meeting["e"]] == e.holders(row=3, col=stored)
        assert [h["row"] for h in meeting["b"]] == meeting["k"]
    field = found["meetings"][5]["e"][0]
    words = ["--operand", "e", "--lane", str(field["lane"]), "--i", str(field["i"]), "--selector", "2", "--json"]
    fed = json.loads(said(saved, "trace", row.id, *words))
    assert {(m["a"][0]["row"], m["a"][0]["col"]) for m in fed["meetings"]} == {(3, 5)}
    text = said(saved, "trace", row.id, "--row", "3", "--col", "2", "--selector", "2")
    assert "by E" in text
    every = said(saved, "trace", row.id, "--row", "3", "--col", "2", "--json").splitlines()
    assert [json.loads(line)["selector"] for line in every] == list(row.metadata.selectors)
    dense = ["trace", "mma.m16n8k8.row.col.f32.f16.f16.f32", "--operand", "e", "--lane", "0", "--i", "0"]
    assert "has no operand E" in CliRunner().invoke(main, dense).output


@pytest.mark.full
def test_where_and_emit_take_a_selector(saved):
    row = SPARSE[KINDS["tf32"]]
    e = row.fragment("e")
    held = json.loads(said(saved, "where", e.id, "--row", "3", "--col", "1", "--selector", "3", "--json"))["holders"]
    table = documented(row, 3)[e.id].selection(3)
    assert [(h["lane"], h["i"]) for h in held] == table.holders(row=3, col=1)
    assert held[0]["bits"] == 4
    text = said(saved, "emit", row.id, "--to", "ptx", "--selector", "3", "--arch", "sm_90")
    assert ".reg .b32 %e0;" in text
    assert "{%c0, %c1, %c2, %c3}, %e0, 3;" in text
    assert "choose one with --selector" in said(saved, "emit", row.id, "--to", "ptx", "--arch", "sm_90", code=2)
    assert "cannot express the metadata" in said(
        saved, "emit", row.id, "--to", "tinygrad", "--selector", "0", "--arch", "sm_90", code=2
    )
    assert "no other fragment" in said(saved, "convert", row.fragment("a").id, row.fragment("d").id, code=2)


def test_the_tables_predict_the_structure_that_is_saved(saved):
    for kind in ("tf32", "f16", "nibbles"):
        found = Results(saved).measurement("sm_90", "emulated", KINDS[kind])
        assert predict_hash(SPARSE[KINDS[kind]], found.tables) == found.structure


def test_what_is_said_to_be_emulated_is_what_machine_code_shows():
    """Of every sparse form, a warpgroup's of n8 too, whose opcodes are published: in its lowering or with its cost."""
    told, wrong = Counter(), []
    for device in arch.ARCHS:
        shown = {id_: low["opcodes"] for id_, low in published().lowering(device.name)["instructions"].items()}
        for row in (row for row in inventory.instructions().values() if row.metadata and row.target.on(device)):
            cost = findings.read(published(), Key("cost", device.name, "live", row.id)) if row.shape.n == 8 else None
            opcodes = tensor(cost.body.opcodes if cost and cost.body else shown.get(row.id, ()))
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
