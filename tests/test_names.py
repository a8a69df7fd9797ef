"""Names as people say them: any order and case, CuTe's and SASS's, GPUs; what PTX has and tcprobe has not."""

import json
import random
import shlex
from collections import Counter
from contextlib import suppress
from itertools import product

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, WARP, WARPGROUP, arch
from tcprobe.isa.gpus import GPUS
from tcprobe.isa.names import resolve, select, select_instructions
from tcprobe.references import cute_copy, cute_tensor_memory
from tcprobe.references.cute import ATOMS
from tcprobe.store import kinds, names
from tcprobe.store.cell import cell
from tcprobe.store.choose import alone
from tcprobe.store.results import published


@pytest.fixture(scope="module")
def tables():
    return alone(published())


def tcprobe(*arguments, code=0):
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == code, (done.output, done.exception)
    return done


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("h100", 90),
        ("NVIDIA H200", 90),
        ("A100", 80),
        ("rtx4090", 89),
        ("RTX 4090", 89),
        ("4090", 89),
        ("NVIDIA GeForce RTX 3090 Ti", 86),
        ("RTX A6000", 86),
        ("RTX 6000 Ada", 89),
        ("Tesla T4", 75),
        ("v100", 70),
        ("NVIDIA_A100-SXM4-80GB", 80),
        ("Jetson AGX Orin", 87),
        ("B200", 100),
        ("b300", 103),
        ("thor", 110),
        ("5090", 120),
        ("GB10", 121),
        ("hopper", 90),
        ("Turing", 75),
        ("ada", 89),
        ("sm_90a", 90),
        ("90a", 90),
        ("9.0", 90),
        ("compute_80", 80),
        ("sm_101", 110),
        ("sm_101a", 110),
        ("SM_90", 90),
        ("12.0", 120),
        ("sm90", 90),
    ],
)
def test_archs_by_any_name(name, wanted):
    assert arch(name).number == wanted


@pytest.mark.parametrize("row", ARCHS, ids=str)
def test_every_spelling_of_an_arch(row):
    for spelling in (row.name, row.name.upper(), str(row.number), row.compute_capability, f"compute_{row.number}"):
        assert arch(spelling) is row


def test_what_is_shown_of_gpus_is_understood():
    for number, shown, _ in GPUS:
        for name in shown.split(", "):
            if not name.startswith(("RTX 20", "RTX 30", "RTX 40", "RTX 50", "GTX")) or name.endswith("Ada"):
                assert arch(name).number == number


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ampere", "several archs: sm_80 (A100, A30), sm_86"),
        ("blackwell", "sm_121 (GB10"),
        ("sm_80a", "unknown arch"),
        ("sm_90f", "unknown arch"),
        ("sm_99", "did you mean sm_90"),
        ("sm_62", "has no tensor cores"),
        ("", "unknown arch"),
        ("٩٠", "unknown arch"),
        ("90 0", "unknown arch"),
        ("x" * 5000, "unknown arch"),
    ],
)
def test_what_is_no_arch(name, words):
    with pytest.raises(UsageError) as error:
        arch(name)
    assert words in str(error.value)
    assert len(str(error.value)) < 500


@given(st.text(max_size=30))
def test_any_text_is_an_arch_or_an_error(text):
    with suppress(UsageError):
        assert arch(text) in ARCHS


def test_shuffled_words_of_an_id_mean_its_table(tables, sample):
    """A fourth of a warp's fragments of sm_90, some of a warpgroup's; capitals and the order of words do not matter."""
    device, shuffled = arch("sm_90"), random.Random(3)
    of = {threads: [f for f in select(device=device) if f.threads == threads] for threads in (WARP, WARPGROUP)}
    for fragment in sample([*of[WARP][::4], *of[WARPGROUP][::60]], 5):
        found = tables.choose(fragment, ["sm_90"])
        parts = fragment.id.split(".")
        shuffled.shuffle(parts)
        if found and fragment.shape != (8, 8, 4):  # there row and col stand in either order
            meant = names.meant(" ".join(parts).upper(), "sm_90", tables)
            assert meant.cell.table == found.table(fragment), (fragment.id, parts)


def test_atoms_of_cute_are_their_instructions():
    for atom in ATOMS:
        for name in atom.names.split():
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


@pytest.mark.parametrize(
    ("name", "at", "id_"),
    [
        ("accumulator wmma 16x16x16 f32", "v100", "wmma.m16n16k16.c.f32"),
        ("wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>", "a100", "wmma.m16n16k16.b.col.f16"),
        ("mma.m16n8k16*.f16.f16.*.a", None, "mma.m16n8k16.row.col.f16.f16.f16.f16.a"),
        ("HMMA.16816.F32 b", "h100", "mma.m16n8k16.row.col.f32.f16.f16.f32.b"),
        ("HMMA.16816 d", "h100", None),
        ("SM80_16x8x16_F32BF16BF16F32_TN d", None, "mma.m16n8k16.row.col.f32.bf16.bf16.f32.d"),
        ("mma m16n8k32 fp8 a", "sm_89", "mma.m16n8k32.row.col.f16.e4m3.e4m3.f16.a"),
        ("m16n8k16 a", None, None),
    ],
)
def test_a_name_of_several_answers_where_their_tables_agree(name, at, id_, tables):
    if id_ is None:
        with pytest.raises(UsageError, match=r"means \d+ fragments with \d different tables"):
            names.meant(name, at, tables)
        return
    found = names.meant(name, at, tables)
    assert found.cell.fragment.id == id_
    rows = [f for f in names.resolve(name, tables).fragments if not at or f.target.on(arch(at))]
    assert all(cell(f, at, tables).table == found.cell.table for f in rows)
    assert (found.note is not None) == (len(rows) > 1)


def test_every_opcode_means_the_multiplies_that_become_it(tables):
    body = next(tables.lowerings("sm_90"))[0]["instructions"]
    for id_, lowering in body.items():
        if list(lowering["opcodes"].values()) == [1] and names._same_shape(id_, *lowering["opcodes"]):
            found = names.resolve(next(iter(lowering["opcodes"])), tables).instructions
            assert id_ in {row.id for row in found}
            assert len({row.shape for row in found}) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shfl.sync.bfly.b32", "exchanges between lanes) is PTX's, but holds no matrix. See `tcprobe convert`"),
        ("cp.async.bulk", "--fill tma"),
        ("tcgen05.alloc", "synchronisation and resources"),
    ],
)
def test_what_ptx_has_beside_is_named(name, words):
    assert words in tcprobe("show", name, code=2).stderr


def test_what_is_said_of_names_that_mean_nothing():
    for name, words in {
        "mma m16n8k64 e4m3 a": "Say sparse for mma.sp.m16n8k64.row.col.f32.e4m3.e4m3.f32.a",
        "wmma m16n16k16 foo": "Not known: 'foo'. Without foo it would mean wmma.mma.",
        "mma m16n8k16 bf16 f16": "Without f16 it would mean mma.m16n8k16.row.col.f32.bf16.bf16.f32",
        "foo": "Not known: 'foo'. See `tcprobe list`",
        "wmma 16x16x16 row 3": "Numbers go with --row and --col",
        "HMMA.884": "'HMMA.884' is only a part of what",
        "HMMA.16816.F99": "no multiply is known to become 'HMMA.16816.F99'",
    }.items():
        assert words in tcprobe("where", *name.split(" "), "--lane", 0, code=2).stderr


@pytest.mark.parametrize(
    ("pattern", "operands"),
    [
        ("wgmma.m64n24k16.f32.bf16.bf16.*", "ad"),
        ("wgmma.m64n24k16.f32.bf16*", "ad"),
        ("wgmma.m64n24k16.f32.b*.[cd]", "d"),
        ("wgmma.sp.*n24k32.f32.bf16*", "ade"),
    ],
)
def test_a_pattern_may_leave_parts_of_a_name_out(pattern, operands):
    form = "wgmma.mma_async.sp.m64n24k32" if ".sp." in pattern else "wgmma.mma_async.m64n24k16"
    assert [f.id for f in select(pattern)] == [f"{form}.f32.bf16.bf16.{one}" for one in operands]


def test_operands_in_shared_memory_are_meant_by_the_same_patterns():
    found = resolve("wgmma.m64n24k16.f32.bf16.*").shared
    assert [one.held.name for one in found] == ["a_smem", "b_smem"]
    assert not resolve("wgmma.m64n24k16.f32.bf16.[cd]").shared


def test_run_names_the_kinds_of_findings_among_the_families():
    known = ", ".join(["wgmma.sp", *kinds.names(), "tma"])
    assert known in tcprobe("run", "--family", "bank", code=2).stderr


@given(st.text(max_size=60))
def test_any_name_is_understood_or_refused(text):
    with suppress(UsageError):
        assert resolve(text).some_fragments


def test_of_several_that_fit_the_best_counts():
    """The type of the operand itself, one accumulator type, the family that is named, and patterns of parts."""
    assert {f.type for f in resolve("m16n8k16 fp16 A").some_fragments} == {"f16"}
    assert {i.id.split(".")[-1] for i in resolve("wmma 16x16x16 half float").some_instructions} == {"f32"}
    assert {i.family for i in select_instructions("mma m16n8k16 f16")} == {"mma"}
    assert {f.shape.k for f in resolve("m16n8k8*").some_fragments} == {8}
    assert resolve("*m16n8k8*").some_fragments != resolve("m16n8k*").some_fragments


def test_why_not_of_many_says_each_reason_once():
    text = tcprobe("why-not", "mma", "m16n8k32", "fp8", "--arch", "a100").stdout
    assert len(text.splitlines()) == 1
    assert "needs target sm_89" in text
    assert len(tcprobe("why-not", "mma", "m16n8k32", "fp8", "--arch", "a100", "--json").stdout.splitlines()) > 20
    four = tcprobe("why-not", "SM80_16x8x16_F32F16F16F32_TN", "--arch", "turing").stdout
    assert four.count("needs target sm_80") == 1
    here = tcprobe("why-not", "mma.m16n8k16.row.col.f32.e4m3.e4m3.f32.a", "--arch", "sm_120").stdout
    assert "on a GPU of sm_120 measures it" in here or "measured" in here


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_colour_and_width(columns, monkeypatch):
    """NO_COLOR on what would take colour, and drawings within COLUMNS."""
    monkeypatch.setenv("COLUMNS", str(columns))
    asked = ["show", "mma.m16n8k8.row.col.f32.tf32.tf32.f32.a", "--arch", "h100", "--full"]
    coloured = CliRunner().invoke(main, asked, color=True).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    plain = CliRunner().invoke(main, asked, color=True).stdout
    assert "\x1b[" in coloured
    assert "\x1b[" not in plain
    drawn = plain.split("lane -> row,col")[1].split("measured:")[0].splitlines()[1:]
    assert max(map(len, drawn)) <= columns
    for command in ([], ["show"], ["reduce"], ["convert"]):
        text = CliRunner().invoke(main, [*command, "--help"], terminal_width=columns).stdout
        prose = text.partition("Examples:")[0]  # commands to paste are never broken below 80
        assert max(map(len, prose.splitlines())) <= columns
        assert max(map(len, text.splitlines())) <= max(columns, 80)


def test_one_command_answers_what_a_person_types():
    done = tcprobe("where", *["accumulator", "wmma", "16x16x16", "f32", "--arch", "v100", "--row", "3", "--col", "9"])
    assert "[3][9]: lane 9 i 3 (register 3, bits 0..31)" in done.stdout
    assert "means 2 fragments, all with this table on sm_70" in done.stderr
    asked = ["HMMA.16816.F32", "a", "--row", 3, "--col", 9, "--json"]
    assert [h["lane"] for h in json.loads(tcprobe("where", *asked).stdout)["holders"]] == [12]
    assert (
        "in mma.m16n8k16.row.col.f32.bf16.bf16.f32 on"
        in tcprobe("trace", "mma", "m16n8k16", "bf16", "--row", 0, "--col", 0).stdout
    )
    shown = tcprobe("show", "matrix_a", "half", "16x16x16", "row_major", "--arch", "V100").stdout
    assert shown.startswith("wmma.m16n16k16.a.row.f16 on sm_70")


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
    for id_, atom in cute_copy.ATOMS.items():
        (row,) = resolve(atom.name).some_instructions
        assert row.id == id_
    for shape, atom in cute_tensor_memory.ATOMS.items():
        for op, said in cute_tensor_memory.NAMES.items():
            (row,) = resolve(f"SM100_TMEM_{said}_{atom.name}").some_instructions
            assert row.id == f"{op}.{shape}"


def test_a_qualifier_with_a_capital_letter_is_a_word():
    assert len(select("mma block_scale scale_vec::4X ue4m3 e2m1 scale_a")) == 1
    assert len(select("mma sparse block_scale scale_vec::4X ue4m3 e2m1 scale_a")) == 1


@pytest.mark.parametrize("size", ["30", "0", "-16", "\u00b2", "\u0663\u0662", "16x", "9" * 5000])
def test_a_vector_size_that_no_form_has_is_refused(size):
    types = "float_e2m1_t, float_e2m1_t, float, float_ue8m0_t"
    with pytest.raises(UsageError, match="is called"):
        assert resolve(f"SM120_16x8x64_TN_VS<{types}, {size}> a").fragment
    with pytest.raises(UsageError, match="is called"):
        assert resolve(f"SM120_16x8x{size}_TN a").fragment


def spelled():
    """Every name of a row with dots, and the row's id: its id, and PTX's own name."""
    rows = [*inventory.fragments().values(), *inventory.instructions().values()]
    yield from ((row.id, row.id) for row in rows)
    yield from ((row.name, row.id) for row in inventory.instructions().values() if "{" not in row.name)
    yield from (
        (f.instruction if f.shared else f"{f.instruction}.{f.operand}", f.id)
        for f in inventory.fragments().values()
        if "{" not in f.instruction
    )


def mutated(name, chance):
    """The name with two parts exchanged, one dropped, or one doubled somewhere."""
    parts, how = name.split("."), chance.choice(["exchanged", "dropped", "doubled"])
    first, second = chance.sample(range(len(parts)), 2)
    if how == "exchanged":
        parts[first], parts[second] = parts[second], parts[first]
    elif how == "dropped":
        del parts[first]
    else:
        parts.insert(second, parts[first])
    return how, ".".join(parts)


def mutations(count):
    """How many mutated names were refused, meant what they came from, or are names of others; and those that are not,
    and mean others all the same.
    """
    chance, pool, counts, silent = random.Random(19), list(spelled()), Counter(), []
    known = {name for name, _ in pool}
    for _ in range(count):
        name, id_ = chance.choice(pool)
        how, text = mutated(name, chance)
        meaning = resolve(text)
        ids = {row.id for row in (*meaning.fragments, *meaning.instructions)}
        ids |= {row.id.rpartition(".")[0] for row in meaning.fragments if not row.shared}
        if text in known:
            counts[how, "a name as it stands"] += 1
        elif not ids:
            counts[how, "refused"] += 1
        elif how == "dropped" and id_ in ids:
            counts[how, "what it was, and others" if len(meaning.fragments) > 1 else "what it was"] += 1
        else:
            counts[how, "silently another"] += 1
            silent.append((name, text, sorted(ids)[:3]))
    return counts, silent


def test_a_dotted_name_keeps_its_order():
    """A sample of 400; a name with parts exchanged or doubled means nothing unless it is another's very name."""
    assert mutations(400)[1] == []


@pytest.mark.full
def test_a_dotted_name_keeps_its_order_in_full(capsys):
    counts, silent = mutations(10_000)
    with capsys.disabled():
        print("", *(f"{how}: {what}: {count}" for (how, what), count in sorted(counts.items())), sep="\n")
    assert silent == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("mma.m16n8k16.row.col.f32.f32.bf16.bf16.d", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.d"),
        ("mma.m16n8k16.col.row.f32.bf16.bf16.f32.a", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"),
        ("wmma.wmma.m16n16k16.a.row.f16", "wmma.m16n16k16.a.row.f16"),
        ("mma.aligned.sync.m16n8k16.row.col.f32.bf16.bf16.f32.a", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"),
        ("mma.m16n8k16.col.row.f32.bf16.bf16.f32 a", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"),
    ],
)
def test_parts_in_another_order_are_refused_with_the_name_that_was_meant(name, meant):
    for command in (["where", name, "--lane", 0], ["show", name], ["load", name], ["why-not", name, "--arch", "sm_90"]):
        assert f"keep their order. Did you mean {meant}?" in tcprobe(*command, code=2).stderr


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("m16n8k16 bf16 A", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"),
        ("mma.m16n8k16.row.col.f32.bf16.bf16.f32 a", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"),
        ("sparse m16n8k32 bf16 A ordered_metadata", "mma.sp::ordered_metadata.m16n8k32.row.col.f32.bf16.bf16.f32.a"),
        ("sparse mma.sp m16n8k32 f32 bf16 accumulator D", "mma.sp.m16n8k32.row.col.f32.bf16.bf16.f32.d"),
        ("m16n8k64 mxfp4 A", "mma.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0.a"),
        (
            "m16n8k64 nvfp4 scale_a",
            "mma.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3.scale_a",
        ),
        ("m64n64k16 f32 bf16 D", "wgmma.mma_async.m64n64k16.f32.bf16.bf16.d"),
        ("SM90_64x64x16_F32BF16BF16_SS<Major::K, Major::MN> d", "wgmma.mma_async.m64n64k16.f32.bf16.bf16.d"),
    ],
)
def test_words_mean_one_fragment(name, id_):
    assert resolve(name).fragment.id == id_


@given(st.sampled_from([row for row in inventory.instructions().values() if row.family == "mma"]))
def test_dense_is_meant_unless_sparse_is_said(row):
    words = " ".join(row.id.split("."))
    assert {i.family for i in resolve(words).instructions} == {"mma"}
    assert not {i.family for i in resolve(f"{words} sparse").instructions} & {"mma", "mma.block_scale"}


def test_words_of_tensor_memory_and_scales():
    assert {row.kind for row in resolve("TMEM mma nvfp4").instructions} == {"mxf4nvf4"}
    assert {row.kind for row in resolve("m16n8k32 mxfp8").instructions} == {"mxf8f6f4"}
    assert {row.family for row in resolve("m16n8k32 block-scaled").instructions} == {"mma.block_scale"}
    atom = "SM100_MMA_F16BF16_2x1SM_SS<half_t, half_t, float, 256, 128, UMMA::Major::K>"
    assert [row.id for row in resolve(atom).bare] == ["tcgen05.mma.cta_group::2.kind::f16"]


def test_the_majors_of_a_template_are_those_of_the_descriptor():
    name = "SM90_64x64x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::MN>"
    place = ["--row", "3", "--col", "5"]
    for operand, major in (("a_smem", "k"), ("b_smem", "mn")):
        by_id = tcprobe("where", f"wgmma.m64n64k16.f32.f16.f16.{operand}", *place, "--major", major).stdout
        assert tcprobe("where", name, operand, *place).stdout == by_id


A, D = (f"mma.m16n8k16.row.col.f32.bf16.bf16.f32.{operand}" for operand in "ad")
MULTIPLY = A.removesuffix(".a")


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (["path", "m16n8k16", "bf16", "A", "--tile", "64x64"], ["path", A, "--tile", "64x64"]),
        (["load", "m16n8k16", "bf16", "A", "h100"], ["load", A, "--arch", "h100"]),
        (
            ["banks", "m16n8k16", "A", "bf16", "--tile", "16x64", "--with", "ldmatrix.x4"],
            ["banks", A, "--tile", "16x64", "--with", "ldmatrix.x4"],
        ),
        (["lower", "mma", "m16n8k16", "bf16", "--arch", "sm_80,sm_90"], ["lower", MULTIPLY, "A100", "H100"]),
        (["show", "m16n8k16", "bf16", "f32", "D"], ["show", D]),
        (["where", "m16n8k16", "bf16", "A", "RTX", "4090", "--lane", 0], ["where", A, "--arch", "4090", "--lane", 0]),
        (
            ["trace", "m16n8k16", "bf16", "--row", 0, "--col", 0, "--arch", "sm_80"],
            ["trace", MULTIPLY, "sm_80", "--row", 0, "--col", 0],
        ),
        (["convert", "m16n8k16", "bf16", "f32", "D", "m16n8k16", "bf16", "A", "--json"], ["convert", D, A, "--json"]),
        (["convert", "D", "m16n8k16", "bf16", "f32", "A", "m16n8k16", "bf16", "--json"], ["convert", D, A, "--json"]),
        (["reduce", "m16n8k16", "bf16", "f32", "D", "--over", "row"], ["reduce", D, "--over", "row"]),
        (["emit", "m16n8k16", "bf16", "A", "--to", "csv"], ["emit", A, "--to", "csv"]),
        (["why-not", "m16n8k16", "bf16", "A", "v100"], ["why-not", A, "--arch", "sm_70"]),
        (["list", "m16n8k16", "bf16", "A"], ["list", A]),
        (["diff", "sm_80", "sm_90", "m16n8k16", "bf16", "A"], ["diff", "sm_80", "sm_90", A]),
        (["compare", "m16n8k16", "bf16", "A", "a100"], ["compare", A, "--arch", "sm_80"]),
    ],
)
def test_words_without_quotes_in_every_command(words, quoted):
    assert tcprobe(*words).stdout == tcprobe(*quoted).stdout


def test_archs_said_twice_or_where_one_is_needed():
    assert "say the arch once" in tcprobe("where", A, "h100", "--arch", "sm_80", "--lane", 0, code=2).stderr
    assert "one arch is needed here" in tcprobe("emit", A, "--to", "csv", "--arch", "sm_80,sm_90", code=2).stderr


def test_metadata_without_a_selector_gives_every_one():
    e = "mma.sp.m16n8k16.row.col.f32.f16.f16.f32.e"
    lines = tcprobe("where", e, "--row", 3, "--col", 5, "--json").stdout.splitlines()
    assert [json.loads(line)["selector"] for line in lines] == [0, 1, 2, 3]
    assert tcprobe("where", e, "--row", 3, "--col", 5, "--selector", 2, "--json").stdout.strip() == lines[2]
    assert tcprobe("trace", e.removesuffix(".e"), "--row", 3, "--col", 5).stdout.count("selector") == 4


def test_what_means_several_things_gives_commands_to_paste():
    first, *commands = tcprobe("where", "m16n8k16", "A", "h100", "--row", 0, "--col", "0-3", code=2).stderr.splitlines()
    assert first.endswith("Say more of the name:")
    assert len(commands) == 3
    for command in commands:
        assert command.endswith("--row 0 --col 0-3 --arch h100")
        assert tcprobe(*shlex.split(command)[1:]).stdout


if __name__ == "__main__":
    for (how, what), count in sorted(mutations(10_000)[0].items()):
        print(f"{how}: {what}: {count}")
