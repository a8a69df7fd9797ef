"""Rows: complete, consistent, and impossible to build when they contradict themselves."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.absent import why_forbidden
from tcprobe.errors import RowError, UsageError
from tcprobe.isa import arch, inventory
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve, select, select_instructions
from tcprobe.isa.operand import WHOLE, Place, Role
from tcprobe.isa.rows import mma
from tcprobe.isa.rows.mma import MultiplyRow
from tcprobe.isa.target import Target

ROWS = list(inventory.instructions().values())
MULTIPLIES = [row for row in ROWS if row.multiplies_registers]
MOVES = ("ldmatrix", "stmatrix", "movmatrix")


def test_no_form_of_ptx_isa_9_1_is_lost():
    """Forms are added, and never fewer; each has an id of its own, and but for K = 96 a name of its own."""
    families = [row.family for row in ROWS]
    counts = {"wmma": 96, "mma": 128, "ldmatrix": 21, "stmatrix": 9, "movmatrix": 1, "mma.sp": 110, "tcgen05": 56}
    counts |= {"mma.block_scale": 29, "mma.sp.block_scale": 29, "wgmma": 474, "wgmma.sp": 456}
    assert {family: families.count(family) for family in counts if families.count(family) < counts[family]} == {}
    wmma = [f for f in inventory.fragments().values() if f.family == "wmma"]
    of = {op: sum(f.operand == op for f in wmma) for op in "abcd"}
    assert (of["a"], of["c"]) == (of["b"], of["d"]) >= (31, 13)
    assert len({row.id for row in ROWS}) == len(ROWS)
    shared = {
        name: ids for name in {row.name for row in ROWS} if len(ids := [row.id for row in ROWS if row.name == name]) > 1
    }
    assert shared == {
        f"tcgen05.mma.cta_group::2.kind::{kind}.block_scale{{.scale_vectorsize}}": [
            f"tcgen05.mma.cta_group::2.kind::{kind}{k}" for k in ("", ".k96")
        ]
        for kind in ("mxf4", "mxf4nvf4")
    }


TEXT = Path(mma.__file__).with_suffix(".csv").read_text()
LINES = len(TEXT.splitlines())
NEW = "mma,m16n8k64,row.col,f16.f16,f32.f32,,,,1,,sm_90:7.8,nowhere"


def with_text(monkeypatch, tmp_path, text):
    """The forms by name where mma.csv holds another text."""
    (tmp_path / "mma.csv").write_text(text)
    monkeypatch.setattr(mma, "__file__", str(tmp_path / "mma.py"))
    return dict(mma.forms())


def test_a_form_is_a_line(monkeypatch, tmp_path):
    line = "mma,m16n8k64,row.col,f16.f16,f16.f16 f32.f32,,,,1,,sm_90:7.8|stated:8.0,nowhere"
    made = with_text(monkeypatch, tmp_path, f"{TEXT}{line}\n")
    new = [made[name]() for name in list(made)[-2:]]
    assert [row.name for row in new] == [f"mma.sync.aligned.m16n8k64.row.col.{t}.f16.f16.{t}" for t in ("f16", "f32")]
    assert [(o.name, o.rows, o.cols, o.registers) for o in new[1].operands] == [
        ("d", 16, 8, 4),
        ("a", 16, 64, 16),
        ("b", 64, 8, 8),
        ("c", 16, 8, 4),
    ]
    assert (new[0].target.options, new[0].target.stated) == ((("sm_90", "7.8"),), "8.0")


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("form", "mna", "'mna' is not one of 'mma', 'mma.sp', 'mma.sp::ordered_metadata'"),
        ("shape", "16x8x16", "'16x8x16' is not a shape such as m16n8k16 or m8n8"),
        ("layouts", "row", "'row' is not pairs such as f16.f16"),
        ("layouts", "row.left", "'row.left' is not one of 'row', 'col'"),
        ("ab", "f16|f17.f16", "'f16|f17.f16': unknown element type 'f17'; known: f64"),
        ("kind", "f8", "'f8' is not one of 'f8f6f4', 'mxf8f6f4'"),
        ("scale", "3X.ue8m0", "'3X.ue8m0' is not a number of scales and their type, such as 2X.ue8m0"),
        ("bit_op", "or", "'or' is not one of 'xor', 'and'"),
        ("products", "one", "'one' is not a whole number"),
        ("target", "sm_81:7.0", "'sm_81:7.0': 'sm_81' is not a PTX target"),
        ("target", "sm_90:7.0", "'sm_90:7.0': PTX 7.0 does not know sm_90, which came with PTX 7.8"),
        ("target", "sm_90", "'sm_90': expected targets with PTX versions, such as sm_120a:8.7|sm_120f:8.8"),
    ],
)
def test_a_wrong_cell_is_named_with_its_file_line_and_column(monkeypatch, tmp_path, column, cell, words):
    cells = dict(zip(mma.MmaRow._fields, NEW.split(","), strict=True)) | {column: cell}
    with pytest.raises(RowError) as raised:
        with_text(monkeypatch, tmp_path, TEXT + ",".join(cells.values()) + "\n")
    assert f"mma.csv, line {LINES + 1}, column {column}: {words}" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("form,shape\n", "line 1: the columns are form,shape,layouts,ab,dc,"),
        ("", "line 1: the columns are form,"),
        (f"{TEXT}mma,m16n8k16\n", f"line {LINES + 1}: 2 cells; the columns are form,"),
        (f"{TEXT}{TEXT.splitlines()[3]}\n", f"line {LINES + 1}: 'mma,m16n8k16,row.col,f16.f16,"),
        (f'{TEXT}"mma\n', f"line {LINES + 1}: unexpected end of data."),
    ],
)
def test_a_table_of_another_form_is_refused(monkeypatch, tmp_path, text, words):
    with pytest.raises(RowError, match=re.escape(f"mma.csv, {words}")):
        with_text(monkeypatch, tmp_path, text)


def test_every_fragment_holds_its_matrix_a_whole_number_of_times():
    for f in inventory.fragments().values():
        if f.role in WHOLE:
            assert f.threads * f.elements == f.copies * f.rows * f.cols * f.products, f.id
        assert f.elements * f.slot_bits == f.registers * f.register_bits


def test_shapes_of_a_multiply_are_those_of_its_fragments():
    for row in MULTIPLIES:
        for f in row.fragments:
            stored = (f.shape.m, row.stored)
            expected = {"a": stored, "e": stored, "b": (f.shape.k, f.shape.n)}
            if f.role is Role.SCALE:
                blocks = {"scale_a": f.cols, "scale_b": f.rows}[f.operand]
                assert blocks in (1, 2, 4)
                expected |= {"scale_a": (f.shape.m, blocks), "scale_b": (blocks, f.shape.n)}
            assert (f.rows, f.cols) == expected.get(f.operand, (f.shape.m, f.shape.n))


@pytest.mark.parametrize(
    ("name", "operand", "rows", "cols", "registers", "elements", "kept"),
    [  # PTX ISA 9.7.14.5.15 to 9.7.14.5.17; rows and cols are those in memory, of all matrices
        ("ldmatrix.m8n8.x4.shared.b16", "d", 32, 8, 4, 8, 16),
        ("ldmatrix.m8n8.x1.trans.shared.b16", "d", 8, 8, 1, 2, 16),
        ("ldmatrix.m16n16.x2.trans.shared.b8", "d", 32, 16, 4, 16, 8),
        ("ldmatrix.m8n16.x2.shared.b8x16.b6x16_p32", "d", 16, 16, 2, 8, 6),
        ("ldmatrix.m16n16.x1.trans.shared.b8x16.b4x16_p64", "d", 16, 16, 2, 8, 4),
        ("stmatrix.m8n8.x2.shared.b16", "a", 16, 8, 2, 4, 16),
        ("stmatrix.m16n8.x1.trans.shared.b8", "a", 8, 16, 1, 4, 8),
    ],
)
def test_matrix_moves(name, operand, rows, cols, registers, elements, kept):
    row = inventory.instructions()[name]
    held, address = row.fragment(operand), row.fragment("address")
    (memory,) = (o for o in row.operands if o.place is Place.SHARED)
    assert (held.rows, held.cols, held.registers, held.elements) == (rows, cols, registers, elements)
    assert (memory.rows, memory.cols, memory.slot_bits) == (rows, cols, kept)
    assert memory.cols * memory.slot_bits <= 128  # a row is 16 bytes
    assert (address.rows, address.registers, address.role) == (rows, 1, Role.ADDRESS)
    assert not row.multiplies
    assert row.name.startswith(f"{row.family}.sync.aligned.")


def test_blackwell_moves_have_the_targets_of_their_families():
    row = inventory.instructions()["ldmatrix.m16n16.x1.trans.shared.b8"]
    on = {a.name: target for a in arch.ARCHS if (target := row.target.on(a))}
    known = {
        "sm_100": ("sm_100a", "8.6"),
        "sm_103": ("sm_100f", "8.8"),
        "sm_107": ("sm_100f", "8.8"),
        "sm_110": ("sm_110a", "9.0"),
        "sm_120": ("sm_120a", "8.7"),
        "sm_121": ("sm_120f", "8.8"),
    }
    assert on == known | {name: (f"sm_{arch.arch(name).family}f", "8.8") for name in on if name not in known}


def test_a_whole_id_means_that_form_alone():
    """Without .trans it is a shortened name of the form with it, too."""
    assert [i.id for i in select_instructions("ldmatrix.m8n8.x2.shared.b16")] == ["ldmatrix.m8n8.x2.shared.b16"]
    assert len(select_instructions("ldmatrix.x2.b16")) == 2
    assert resolve("ldmatrix.m8n8.x2.shared.b16.d").fragment.id == "ldmatrix.m8n8.x2.shared.b16.d"


def test_only_multiplies_are_multiplies():
    assert {row.family for row in ROWS if not row.multiplies} == {*MOVES, "tcgen05"}
    with pytest.raises(UsageError, match=r"movmatrix\.m8n8\.trans\.b16 is not a multiply: it moves a matrix"):
        assert resolve("movmatrix.m8n8.trans.b16").multiply


@pytest.mark.parametrize(
    ("name", "operand", "registers", "elements"),
    [  # PTX ISA 9.7.14.4.1 and 9.7.14.5
        ("wmma.mma.row.col.m16n16k16.f32.f32", "a", 8, 16),
        ("wmma.mma.row.col.m8n32k16.f32.bf16.bf16.f32", "a", 2, 4),
        ("wmma.mma.row.col.m32n8k16.s32.u8.u8.s32", "b", 1, 4),
        ("wmma.mma.row.col.m8n8k4.f64.f64.f64.f64", "d", 2, 2),
        ("mma.m8n8k4.row.col.f32.f16.f16.f16", "c", 4, 8),
        ("mma.m16n8k16.row.col.f64.f64.f64.f64", "a", 8, 8),
        ("mma.m16n8k256.row.col.s32.b1.b1.s32.and.popc", "a", 4, 128),
        ("mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32", "a", 4, 16),
    ],
)
def test_registers_and_elements(name, operand, registers, elements):
    fragment = inventory.instructions()[name].fragments["abcd".index(operand)]
    assert (fragment.registers, fragment.elements) == (registers, elements)


BASE = MultiplyRow(Shape(16, 8, 16), ("f32", "f16", "f16", "f32"), ("row", "col"), Target("sm_80", "7.0"))


def instruction(row):
    return Instruction("mma", "a.name", row.shape, row.operands(), row.target, products=row.products)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": Shape(16, 8, 3)},
        {"shape": Shape(5, 8, 16)},
        {"types": ("s32", "f16", "f16", "s32")},
        {"types": ("f32", "f16", "bf16", "f32")},
        {"types": ("f32", "f17", "f16", "f32")},
        {"types": ("f32", "e2m1", "e2m1", "f32")},
        {"types": ("s32", "b1", "b1", "s32")},
        {"layouts": ("row", "diagonal")},
        {"layouts": (None, "col")},
        {"bit_op": "xor"},
        {"kind": "f8f6f4"},
        {"products": 4},
        {"registers_ab": (3, 2)},
        {"registers_ab": (64, 2)},
    ],
)
def test_a_contradictory_row_cannot_be_built(change):
    with pytest.raises(RowError):
        instruction(BASE._replace(**change))


@pytest.mark.parametrize(
    "target",
    [
        ("sm_81", "7.0"),
        ("sm_60", "7.0"),
        ("sm_120a", "7.0"),  # PTX 7.0 does not know it
        ("sm_80", "seven"),
        ("sm_80", "6.5"),  # before sm_80
        ("sm_120a", "8.7", (("sm_120f", "8.0"),)),
    ],
)
def test_a_contradictory_target_cannot_be_built(target):
    with pytest.raises(RowError):
        Target(*target)


@given(
    st.sampled_from([row for row in MULTIPLIES if not row.metadata and not row.scales]),
    st.sampled_from(["d", "a", "b", "c"]),
    st.sampled_from(["f16", "f64", "s32", "b1", "u8"]),
)
def test_changing_one_type_gives_another_known_row_or_an_error(row, operand, kind):
    types = {o.name: o.type for o in row.operands} | {operand: kind}
    layouts = tuple(f.layout for f in row.factors)
    counts = tuple(f.registers for f in row.factors) if row.definitions else None
    try:
        changed = instruction(
            MultiplyRow(
                row.shape, tuple(types.values()), layouts, row.target, row.bit_op, row.kind, counts, row.products
            )
        )
    except RowError:
        return
    # what can be built is internally consistent: the same checks as for known rows hold
    assert changed.type(operand) == kind
    assert all(f.copies in (1, 2, 4) for f in changed.fragments)


def test_names_resolve_whole_shortened_and_with_ptx_qualifiers():
    for id_, fragment in inventory.fragments().items():
        assert resolve(id_).fragment is fragment
    assert resolve("wmma.m16n16k16.d.f32").fragment.id == "wmma.m16n16k16.d.f32"
    assert resolve("m8n32k16.a.row.u8").fragment.id == "wmma.m8n32k16.a.row.u8"
    whole = resolve("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32").fragments
    assert [f.operand for f in whole] == ["a", "b", "c", "d"]
    load = resolve("wmma.load.a.sync.aligned.row.m16n16k16.f16").fragment
    assert load.id == "wmma.m16n16k16.a.row.f16"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mma.m16n8k16", "matches"),
        ("wmma.m16n16k16.a.row.f61", "Did you mean wmma.m16n16k16.a.row.f16"),
        ("", "no fragment"),
    ],
)
def test_a_wrong_name_gets_suggestions(name, words):
    with pytest.raises(UsageError, match=words):
        assert resolve(name).fragment


def test_archs_and_targets():
    sm = arch.arch
    assert [arch.runs(sm("sm_90"), t) for t in ("sm_70", "sm_90", "sm_100", "sm_90a")] == [True, True, False, True]
    assert [arch.runs(sm("sm_121"), t) for t in ("sm_120", "sm_120a", "sm_120f")] == [True, False, True]
    assert not arch.runs(sm("sm_100"), "sm_120f")
    assert sm("9.0") is sm("sm_90") is sm("90")
    with pytest.raises(UsageError, match="sm_80"):
        sm("sm_81")


def test_why_not():
    kind = resolve("mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32.a").fragment
    assert "sm_120a" in why_forbidden(kind, arch.arch("sm_90"))
    assert why_forbidden(kind, arch.arch("sm_120")) is None
    assert why_forbidden(kind, arch.arch("sm_121")) is None


def test_select():
    ids = {f.id for row in ROWS for f in row.fragments}
    assert len(select()) == len(inventory.fragments()) == len(ids)
    assert len(select(family="mma")) == 4 * len(inventory.of_family("mma"))
    assert {f for row in ROWS for f in [row.family]} == set(inventory.families())
    with pytest.raises(UsageError, match="no family is called 'mna'; known: wmma, mma"):
        select(family="mna")
    assert {f.family for f in select(family="wmma")} == {"wmma"}
    sm_70 = select(device=arch.arch("sm_70"))
    assert {f.target.name for f in sm_70} == {"sm_70"}
    assert len(select("wmma.m16n16k16.?.f32")) == 2
