"""mma.sync by its own code: what D must be, that nothing else passes, and what another arch's opcodes lend."""

import random
import sys
from functools import cache

import numpy as np
import pytest
from machine_code import TOOLS, needs_tools
from test_pins import PINNED
from wrapped_tools import beside, tool
from wrapped_tools import run as run_tools

from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.isa.dtypes import dtype
from tcprobe.layout import structure
from tcprobe.layout.table import slot_table
from tcprobe.probes import multiply
from tcprobe.probes.slots import decode, encode
from tcprobe.references import ptx_isa
from tcprobe.sass import derive, evidence, tensor, tensor_product
from tcprobe.sass.cubin import assemble
from tcprobe.sass.decode import UnreadError
from tcprobe.sass.evidence import ContradictedError
from tcprobe.store.choose import alone
from tcprobe.store.kinds import encodings
from tcprobe.store.results import Results, published

# forms that ptxas is asked for on every arch from their least on; one that was added has no stated layouts yet
MMA = [i for i in inventory.of_family("mma") if i.target.name[-1].isdigit() and i.id in PINNED]
# (form, arch): no tensor-core opcode with routines in routines, FP8 and 4 bits by others, 1 bit by AND, f64 in parts
SAMPLE = [
    ("mma.m8n8k4.col.row.f16.f16.f16.f16", "sm_80"),
    ("mma.m8n8k4.row.col.f32.f16.f16.f32", "sm_120"),
    ("mma.m16n8k32.row.col.f16.e5m2.e4m3.f16", "sm_90"),
    ("mma.m16n8k32.row.col.s32.s4.s4.s32", "sm_90"),
    ("mma.m8n8k128.row.col.s32.b1.b1.s32.xor.popc", "sm_90"),
    ("mma.m16n8k8.row.col.f64.f64.f64.f64", "sm_100"),
]


@cache
def code_of(id_, name):
    i = inventory.instructions()[id_]
    return next(iter(assemble(TOOLS, [tensor.kernel(i)], arch(name))[0].values()))


def layouts(name):
    return {opcode: tables for opcode, (tables, _) in alone(published()).opcodes(name).items()}


def stated(i, name=None):
    row = arch(name) if name else next(a for a in ARCHS if i.target.on(a))
    return next(tables for _, tables in evidence.stated_layouts(i, row))


def different_trials():
    """One form of all that have the same layouts and random numbers."""
    found = {}
    for i in MMA:
        kinds = [i.type(o) if not dtype(i.type(o)).is_float else "float" for o in "ab"]
        found.setdefault((*kinds, i.bit_op, *(t.id for t in stated(i).values())), i)
    return list(found.values())


def exchanged(table, first, second):
    """The table with what two slots hold exchanged."""
    order = list(range(table.points))
    order[first], order[second] = second, first
    return slot_table(
        32, table.elements, {name: tuple(column[j] for j in order) for name, column in table.values.items()}
    )


# what the trials tell apart


@pytest.mark.parametrize("i", different_trials(), ids=lambda i: i.id)
@pytest.mark.sampled(5)
def test_the_trials_pin_every_slot(i):
    """Whichever two slots of an operand are exchanged, D is another: proven for all pairs of slots of all forms."""
    tables, numbers = stated(i), tensor_product.trials(i).numbers
    a, b, c, d = (structure.holder(tables[f.operand], (f.products, f.rows, f.cols)) for f in i.fragments)
    left, right, added = (numbers[o][:, h] for o, h in (("a", a), ("b", b), ("c", c)))
    if i.bit_op == "xor":  # popc(a ^ b) = a + b - 2ab = (1 - x y) / 2 with x, y of +1 and -1
        left, right = 1 - 2 * left, 1 - 2 * right
    for factor, other in ((left, right.swapaxes(2, 3)), (right.swapaxes(2, 3), left)):
        rows, k = factor.shape[2:]
        assert distinct(factor)  # in another row: some D of the row changes, if only where the other factor is not zero
        whole = (other != 0).any(axis=2).all(axis=(1, 2))
        assert distinct(factor[whole])
        for row in range(rows):  # in one row the two also meet other columns of the other factor
            for first in range(k):
                apart = factor[:, :, row, first, None] != factor[:, :, row]
                meet = (other[..., first, None] != other).any(axis=2)
                changed = (apart & meet).any(axis=0)
                assert (changed.sum(axis=1) == k - 1).all()
    assert distinct(added)
    assert distinct(tensor_product.predicted_d(i, numbers, tables)[:, d])


def distinct(numbers):
    """Whether no two elements have the same numbers in all trials."""
    columns = numbers.reshape(len(numbers), -1)
    return len(np.unique(columns, axis=1).T) == columns.shape[1]


@needs_tools
@pytest.mark.parametrize(("id_", "name"), SAMPLE)
@pytest.mark.sampled(3)
def test_the_code_gives_the_product_and_with_two_slots_exchanged_it_does_not(id_, name):
    i, code, rng = inventory.instructions()[id_], code_of(id_, name), random.Random(0)
    given, tables = tensor_product.trials(i), stated(i, name)
    made = tensor_product.run_multiply(code, i, given.images, layouts(name))
    d = i.fragment("d")
    assert tensor_product.misfit(d, made, tensor_product.predicted_d(i, given.numbers, tables)) is None
    for f in i.fragments:
        for _ in range(12):
            spoilt = tables | {f.operand: exchanged(tables[f.operand], *rng.sample(range(f.slots), 2))}
            words = tensor_product.misfit(d, made, tensor_product.predicted_d(i, given.numbers, spoilt))
            assert words.startswith("D lane "), (f.id, words)


@needs_tools
@pytest.mark.parametrize(("id_", "name"), SAMPLE)
@pytest.mark.sampled(3)
def test_the_structure_tensor_of_the_code_is_the_one_of_the_tables(id_, name):
    """The experiment of a live mma, run on the code: one slot alone is one, the other operand spells slot numbers."""
    i, code = inventory.instructions()[id_], code_of(id_, name)
    outputs = [structure_output(i, code, launch, layouts(name)) for launch in multiply.launches(i)]
    found = multiply.decode(i, *outputs)
    tables = stated(i, name)
    triples = structure.Triples(*(found[operand].astype(np.int64) for operand in "abd"))
    assert triples.digest() == structure.predict(i, tables).digest()
    c, d = (structure.elements(tables[o]) for o in "cd")
    assert (c == d[:, found["c"]]).all()


def structure_output(i, code, launch, known):
    """What the launch of a probe would leave in memory, by the code of the multiply alone."""
    x, y, z = (axis.reshape(-1) for axis in np.meshgrid(*map(np.arange, launch.grid), indexing="ij"))
    order = np.lexsort((x, y, z))
    places = dict(zip((*(f.operand for f in multiply.hot_and_coded(i)), "c"), (x, y, z), strict=True))
    blocks = {o: launch.inputs["abc".index(o)][place[order]] for o, place in places.items()}
    made = [
        tensor_product.run_multiply(
            code, i, {o: np.ascontiguousarray(b[j : j + 500]) for o, b in blocks.items()}, known
        )
        for j in range(0, len(x), 500)
    ]
    d = i.fragment("d")
    return encode(np.concatenate(made) + 0, d.type, d.slot_bits).reshape(-1)


# what is not known is refused


@pytest.mark.full
@needs_tools
def test_what_is_not_modelled_or_has_no_layout_is_refused_with_its_reason():
    bits = "mma.m8n8k128.row.col.s32.b1.b1.s32.and.popc"
    i = inventory.instructions()[bits]
    known = layouts("sm_100") | {"IMMA.16832.U8.U8.ROW.COL": {}}
    with pytest.raises(UnreadError, match=r"not followed: opcode MOVM.U4TO8.M832 is not modelled"):
        evidence.by_code(i, code_of(bits, "sm_100"), arch("sm_100"), known)
    i = inventory.instructions()["mma.m16n8k8.row.col.f32.f16.f16.f32"]
    with pytest.raises(UnreadError, match=r"no layout is known of a tensor-core opcode: HMMA.1688.F32"):
        evidence.by_code(i, code_of(i.id, "sm_80"), arch("sm_80"), layouts("sm_80"))


@needs_tools
def test_a_layout_that_is_wrong_contradicts_the_references():
    id_, name = "mma.m16n8k32.row.col.f16.e5m2.e4m3.f16", "sm_90"
    known = layouts(name)
    table = known["HMMA.16816.F16"]["a"]
    known["HMMA.16816.F16"] = known["HMMA.16816.F16"] | {"a": exchanged(table, 3, 70)}
    with pytest.raises(
        ContradictedError, match=r"under the layouts of the references: D lane \d+ i \d is .* by PTX ISA"
    ):
        evidence.by_code(inventory.instructions()[id_], code_of(id_, name), arch(name), known)


def test_tables_in_which_other_slots_meet_contradict_the_references():
    i = inventory.instructions()["mma.m16n8k16.row.col.f32.f16.f16.f32"]
    tables = stated(i, "sm_80")
    evidence.agree_with_references(i, arch("sm_80"), tables)
    # rows renumbered everywhere: the hardware cannot tell
    rows = {o: renumbered(tables[o], "row") for o in "acd"}
    evidence.agree_with_references(i, arch("sm_80"), tables | rows)
    with pytest.raises(ContradictedError, match="other slots meet than by the layouts of PTX ISA, CuTe"):
        evidence.agree_with_references(i, arch("sm_80"), tables | {"a": rows["a"]})


def renumbered(table, name):
    most = table.extent[name] - 1
    values = dict(table.values) | {name: tuple(most - v for v in table.values[name])}
    return slot_table(32, table.elements, values)


@pytest.mark.full
@needs_tools
@pytest.mark.skipif(sys.platform == "win32", reason="makes shell scripts")
def test_a_contradiction_is_reported_withheld_and_takes_the_place_of_what_was_saved(tmp_path):
    """A disassembler that prints another mask in the routines of m8n8k4: lanes take what they should not."""
    form = "mma.m8n8k4.row.col.f32.f16.f16.f32"
    theirs = published().measurement("sm_80", "derived", form)
    Results(tmp_path / "r").write(theirs)
    beside(tmp_path / "tools" / "nvdisasm")
    lies = tool(tmp_path / "tools" / "nvdisasm", f"{TOOLS.nvdisasm} \"$@\" | sed 's/, 0xfffffffc,/, 0xfffffff8,/'")
    done = run_tools(tmp_path / "r", lies)
    assert done.exit_code == 1, done.output
    assert f"contradiction: {form}: its code is not a product under the layouts of the references" in done.stderr
    found = Results(tmp_path / "r").measurement("sm_80", "derived", form)
    assert (found.status, found.tables) == ("failed", {})
    assert Results(tmp_path / "r").measurement("sm_80", "derived", "mma.m16n8k16.row.col.s32.s8.s8.s32").tables


# opcodes of other archs


def encoded(name):
    return {
        o: derive.Encoded(tuple(d["bits"]), tuple(d["forms"]))
        for o, d in encodings.read_document(published(), name)["opcodes"].items()
    }


def test_an_opcode_has_one_encoding_on_all_archs():
    bits, names = {}, {}
    for name in published().archs():
        for opcode, found in encoded(name).items():
            shown = opcode.removesuffix(".ROW.COL") if opcode.startswith("QMMA") else opcode
            bits.setdefault(shown, set()).add(found.bits)
            names.setdefault(found.bits, set()).add(shown)
    assert {len(found) for found in bits.values()} == {1}
    assert [found for found in names.values() if len(found) > 1] == [{"DMMA.884", "DMMA.8x8x4"}]
    assert len(names) == 70


def pending(id_, name, opcode):
    i = inventory.instructions()[id_]
    return evidence.Pending(i, code_of(id_, name), opcode, "")


@needs_tools
def test_what_another_arch_knows_counts_where_the_encoding_is_the_same(monkeypatch):
    id_, name, opcode = "mma.m16n8k8.row.col.f32.f16.f16.f32", "sm_80", "HMMA.1688.F32"
    form, row, layers = pending(id_, name, opcode), arch("sm_80"), alone(published())
    (found,) = evidence.conclude_by_encoding([form], row, {}, encoded(name), layers)
    assert found.contents["tables"] == published().measurement("sm_90", "live", id_).tables
    assert found.contents["numbering"] == "PTX ISA; HMMA.1688.F32 as measured live on sm_90, encoded alike"
    other = encoded(name) | {opcode: derive.Encoded(("1",), ())}
    (found,) = evidence.conclude_by_encoding([form], row, {}, other, layers)
    assert (found.contents, found.contradicted) == (None, False)
    assert found.words == f"no layout is known of a tensor-core opcode: {opcode}"

    before = evidence._anchored_layouts

    def spoilt(layers, arch_name, wanted):
        for bits, layout in before(layers, arch_name, wanted):
            tables = dict(layout.tables) | {"a": exchanged(layout.tables["a"], 0, 9)}
            yield bits, layout._replace(tables=tables) if arch_name == "sm_75" else layout

    monkeypatch.setattr(evidence, "_anchored_layouts", spoilt)
    (found,) = evidence.conclude_by_encoding([form], row, {}, encoded(name), layers)
    assert (found.contents, found.contradicted) == (None, True)
    assert found.words.startswith(
        "one encoding, two layouts: as measured live on sm_90, encoded alike, and as anchored"
    )


@needs_tools
def test_emulated_code_takes_opcodes_of_other_archs():
    id_, name = "mma.m16n8k16.row.col.f16.e4m3.e4m3.f16", "sm_100"
    (found,) = evidence.conclude_by_encoding(
        [pending(id_, name, "")], arch(name), layouts(name), encoded(name), alone(published())
    )
    i = inventory.instructions()[id_]
    assert found.contents["tables"] == {f.operand: ptx_isa.claim(f, arch(name)).meant for f in i.fragments}
    assert found.contents["numbering"].endswith("HMMA.1688.F16; HMMA.1688.F16 as measured live on sm_90, encoded alike")


# what is published


@pytest.mark.parametrize(
    ("name", "derived", "weaker", "documented"),
    [("sm_70", 12, 0, 0), ("sm_72", 12, 0, 0), ("sm_75", 7, 14, 2)]
    + [(name, 23, 16, 12) for name in ("sm_80", "sm_86", "sm_87", "sm_88")]
    + [("sm_89", 23, 16, 28), ("sm_90", 31, 14, 25)]
    + [(name, 36, 28, 22) for name in ("sm_100", "sm_103", "sm_110")]
    + [(name, 28, 20, 80) for name in ("sm_120", "sm_121")],
)
def test_mma_by_machine_code(name, derived, weaker, documented):
    """Of every arch: forms that follow there, that rest on another arch, and that are known by neither."""
    forms = [i for i in inventory.instructions().values() if i.family == "mma" and i.target.on(arch(name))]
    found = {
        method: [m for m in published().measurements(name, method) if m.experiment.startswith("mma.")]
        for method in ("derived", "same-opcode")
    }
    assert {method: len(ms) for method, ms in found.items()} == {"derived": derived, "same-opcode": weaker}
    assert len(forms) - derived - weaker >= documented  # a form that is added is documented first
    for m in (m for ms in found.values() for m in ms):
        i = inventory.instructions()[m.experiment]
        assert evidence.same_product(m.tables, stated(i, name)), (name, i.id)
        live = published().measurement("sm_90", "live", i.id)
        assert live is None or not live.tables or evidence.same_product(m.tables, live.tables)


def test_numbers_come_back_from_registers():
    for kind, bits in (
        ("f16", 16),
        ("f32", 32),
        ("f64", 64),
        ("s8", 8),
        ("u8", 8),
        ("s4", 4),
        ("u4", 4),
        ("b1", 1),
        ("s32", 32),
    ):
        low = 0 if kind[0] in "ub" else -(1 << min(bits, 10) - 1)
        numbers = np.arange(low, low + 64 if bits > 4 else low + (1 << bits)).repeat(64)[None, :64]
        assert (decode(encode(numbers, kind, bits), kind) == numbers).all(), kind
