"""Names that CuTe and SASS give to instructions: atoms with their types and majors, copies, opcodes."""

from itertools import product

import pytest
from command import tcprobe

from tcprobe.errors import UsageError
from tcprobe.isa.names import resolve
from tcprobe.references import cute
from tcprobe.store import names
from tcprobe.store.choose import alone
from tcprobe.store.results import published


@pytest.fixture(scope="module")
def tables():
    return alone(published())


def test_atoms_of_cute_are_their_instructions():
    for atom in cute.atoms():
        for name in atom.names:
            if "SPARSE" not in name and not name.startswith(("SM90_64", "SM120")):
                (row,) = resolve(name).some_instructions
                shape = "x".join(map(str, row.shape))
                assert shape in name, (name, row.id)
                kinds = "".join(row.type(o).upper().replace("B1", "U1") for o in "dabc")
                assert kinds in name, (name, row.id)


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("SM75_U32x4_LDSM_N", "ldmatrix.m8n8.x4.shared.b16"),
        ("SM75_U16x8_LDSM_T", "ldmatrix.m8n8.x4.trans.shared.b16"),
        ("SM90_U32x2_STSM_N", "stmatrix.m8n8.x2.shared.b16"),
        ("LDSM.16.M88.4", "ldmatrix.m8n8.x4.shared.b16"),
        ("LDSM.16.MT88", "ldmatrix.m8n8.x1.trans.shared.b16"),
        ("MOVM.16.MT88", "movmatrix.m8n8.trans.b16"),
    ],
)
def test_moves_by_the_names_of_cute_and_sass(name, id_):
    assert [row.id for row in resolve(name).some_instructions] == [id_]


@pytest.mark.full
def test_every_opcode_means_the_multiplies_that_become_it(tables):
    body = next(tables.lowerings("sm_90"))[0]["instructions"]
    for id_, lowering in body.items():
        if list(lowering["opcodes"].values()) == [1] and names._same_shape(id_, *lowering["opcodes"]):
            found = names.resolve(next(iter(lowering["opcodes"])), tables).instructions
            assert id_ in {row.id for row in found}
            assert len({row.shape for row in found}) == 1


SCALES = [
    (operand, kind, vector, scale)
    for kind, operand, cases in (
        ("mxf8f6f4", "e5m2", [("1X", "ue8m0")]),
        ("mxf4nvf4", "e2m1", [("2X", "ue8m0"), ("4X", "ue8m0"), ("4X", "ue4m3")]),
    )
    for vector, scale in cases
]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("operand", "kind", "vector", "scale"), SCALES)
def test_scaled_atoms_of_cute_are_their_instructions(operand, kind, vector, scale, sparse):
    k = (32 if kind == "mxf8f6f4" else 64) * (1 + sparse)
    space = "SM120::BLOCKSCALED::" + ("SPARSE::" if sparse else "")
    atom = f"{space}SM120_{'SPARSE_' if sparse else ''}16x8x{k}_TN_VS"
    types = f"float_{operand}_t, cute::float_{operand}_t, float, float_{scale}_t, {k // int(vector[0])}"
    (row,) = resolve(f"{atom}<{types}>").some_instructions
    op = "mma.sp::ordered_metadata" if sparse else "mma"
    assert row.id == (
        f"{op}.m16n8k{k}.row.col.kind::{kind}.block_scale.scale_vec::{vector}.f32.{operand}.{operand}.f32.{scale}"
    )
    assert resolve(f"{atom}<{types}> scale_b").fragment.id == f"{row.id}.scale_b"


@pytest.mark.parametrize("acc", ["float", "half_t"])
def test_atoms_with_types_as_arguments_are_their_instructions(acc):
    types, c = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), {"float": "f32", "half_t": "f16"}[acc]
    for a, b in product(types, types):
        arguments = f"<float_{a}_t, float_{b}_t, {acc}>"
        (dense,) = resolve(f"SM120_16x8x32_TN{arguments}").some_instructions
        assert dense.id == f"mma.m16n8k32.row.col.kind::f8f6f4.{c}.{a}.{b}.{c}"
        (sparse,) = resolve(f"SM120::SPARSE::SM120_SPARSE_16x8x64_TN{arguments}").some_instructions
        assert sparse.id == f"mma.sp::ordered_metadata.m16n8k64.row.col.kind::f8f6f4.{c}.{a}.{b}.{c}"


def test_copy_atoms_of_cute_are_their_instructions():
    for id_, atom in cute.copy_atoms().items():
        (row,) = resolve(atom.name).some_instructions
        assert row.id == id_
    for shape, atom in cute.MEMORY_ATOMS.items():
        for op, said in cute.MEMORY_NAMES.items():
            (row,) = resolve(f"SM100_TMEM_{said}_{atom.name}").some_instructions
            assert row.id == f"{op}.{shape}"


@pytest.mark.full
@pytest.mark.parametrize("size", ["30", "0", "-16", "\u00b2", "\u0663\u0662", "16x", "9" * 5000])
def test_a_vector_size_that_no_form_has_is_refused(size):
    types = "float_e2m1_t, float_e2m1_t, float, float_ue8m0_t"
    with pytest.raises(UsageError, match="is called"):
        assert resolve(f"SM120_16x8x64_TN_VS<{types}, {size}> a").fragment
    with pytest.raises(UsageError, match="is called"):
        assert resolve(f"SM120_16x8x{size}_TN a").fragment


def test_the_majors_of_a_template_are_those_of_the_descriptor():
    name = "SM90_64x64x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::MN>"
    place = ["--row", "3", "--col", "5"]
    for operand, major in (("a_smem", "k"), ("b_smem", "mn")):
        by_id = tcprobe("where", f"wgmma.m64n64k16.f32.f16.f16.{operand}", *place, "--major", major).stdout
        assert tcprobe("where", name, operand, *place).stdout == by_id
