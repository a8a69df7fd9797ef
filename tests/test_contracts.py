"""What other programs rely on, recomputed here from its description alone: formulas as stated, nothing of tcprobe's."""

import json
import random
import re
import time

import pytest
from click.testing import CliRunner

from tcprobe.cli import main


def answers(*arguments):
    """The JSON objects of a command, one a line; of `list` one array."""
    done = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in ([done.stdout] if done.stdout[:1] == "[" else done.stdout.splitlines())]


def answer(*arguments):
    """The one object, or array, of a command."""
    [found] = answers(*arguments)
    return found


def refusal(*arguments):
    """(exit code, message) of a command that must refuse."""
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert isinstance(done.exception, SystemExit), done.output
    assert done.exit_code in (1, 2, 4)
    return done.exit_code, done.stderr


def swizzled(offset, bits, base, shift):
    """Swizzle<B,M,S> of CuTe."""
    mask = ((1 << bits) - 1) << base
    return offset ^ (offset >> shift & mask) if shift >= 0 else offset ^ ((offset & mask) << -shift)


def coordinate(shape, stride, value):
    """One coordinate's part of shape:stride, the first mode fastest."""
    shapes, strides = ([shape], [stride]) if isinstance(shape, int) else (shape, stride)
    total = 0
    for size, step in zip(shapes, strides, strict=True):
        value, digit = divmod(value, size)
        total += digit * step
    assert not value
    return total


def offset(found, first, second):
    """An element's offset by the JSON of `swizzle fit`."""
    parts = zip(found["shape"], found["stride"], (first, second), strict=True)
    total = sum(coordinate(*part) for part in parts) + found["base"]
    for swizzle in found.get("swizzles") or [found["swizzle"]]:
        total = swizzled(total, *swizzle)
    return total


def fitted(folder, text):
    (folder / "map").write_text(text)
    return answer("swizzle", "fit", folder / "map")


@pytest.mark.parametrize("seed", range(6))
def test_two_swizzles_over_any_strides_are_found(seed, tmp_path):
    """Where strides are not powers of two, a map is not an XOR of images of coordinate bits."""
    rng = random.Random(seed)
    rows, pitch, base = rng.randrange(5, 30), 3 * rng.randrange(5, 20), rng.randrange(2) * 37
    first, last = ((bits, rng.randrange(4), bits + rng.randrange(4)) for bits in rng.choices((1, 2, 3), k=2))
    expected = {(a, b): swizzled(swizzled(a * pitch + b + base, *first), *last) for a in range(rows) for b in range(12)}
    found = fitted(tmp_path, "row,col,offset\n" + "".join(f"{a},{b},{value}\n" for (a, b), value in expected.items()))
    if found["kind"] == "affine":  # the two may undo each other
        found["swizzles"] = [[0, 0, 0]]
    assert {place: offset(found, *place) for place in expected} == expected


def test_cells_of_several_sizes_follow_each_other(tmp_path):
    """As long as nothing is left out, a print-out without a command line says every offset."""
    for text in ("(0..2, 0)|(3..10, 0)\n(0, 1)|(1..10, 1)\n", "(0..7, 0)|(8..10, 0)\n(0..7, 1)|(8..10, 1)\n"):
        found = fitted(tmp_path, text)
        assert (found["shape"], found["stride"], found["cells"]) == ([11, 2], [1, 11], 22)
    (tmp_path / "map").write_text("(0..7, 0)|(8..14, 0)\n(0..7, 1)|(8..15, 1)\n")
    assert "(15, 0)" in refusal("swizzle", "fit", tmp_path / "map")[1]


def test_numbers_may_be_quoted(tmp_path):
    """As Python's csv module writes them."""
    found = fitted(tmp_path, '"row","col","offset"\n"0","0","0"\n0,1,1\n1,0,2\n1,1,3\n')
    assert (found["kind"], found["shape"], found["stride"]) == ("affine", [2, 2], [2, 1])


def test_no_pattern_has_no_answer(tmp_path):
    """A line out for a line in."""
    (tmp_path / "none").write_text("")
    assert CliRunner().invoke(main, ["banks", "--patterns", str(tmp_path / "none"), "--json"]).stdout == ""


@pytest.mark.parametrize(
    ("name", "instruction"),
    {
        "SM90_64x24x16_F32F16F16_SS": "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16",
        "SM90::GMMA::MMA_64x64x32_S32U8S8_RS_TN_SATURATE": "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.s8",
        "SM90::GMMA::SPARSE::GMMA_64x8x64_F16E4M3E5M2_SS_TN": "wgmma.mma_async.sp.sync.aligned.m64n8k64.f16.e4m3.e5m2",
        "HGMMA.64x128x16.F32": "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16",
        "hgmma.sp.64x8x16.f32.tf32": "wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.tf32.tf32",
        "QGMMA.64x8x32.F16.E4M3.E5M2": "wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e5m2",
        "IGMMA.64x8x32.U8.S8": "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8",
        "BGMMA.64x8x256.AND.POPC": "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc",
    }.items(),
)
def test_names_of_warpgroups_that_are_not_ptx(name, instruction):
    """CuTe's atoms, and the opcodes that `lower` shows."""
    assert {entry["instruction"] for entry in answer("list", name)} == {instruction}


def test_an_opcode_of_two_forms_with_the_same_tables_answers():
    """Plain and ordered sparse multiplies; so do the atoms of two spellings of e4m3."""
    for name, operands in (("HMMA.SP.16816.F32 e", 4), ("SM89_16x8x32_F32E4M3E4M3F32_TN", 4)):
        assert len(answers("show", name)) == operands


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cp.async.cg.shared.global", "`tcprobe banks --tile 64x64 --type f16 --with cp.async.16`"),
        ("cp.async.bulk.tensor.2d", "--fill tma"),
        ("ld.shared.b32", "`tcprobe banks"),
        ("redux.sync.add.s32", "`tcprobe reduce m16n8k16"),
        ("mbarrier.init", "no matrix"),
        ("wgmma.commit_group", "no matrix"),
        ("tcgen05.alloc", "no matrix"),
        ("dp4a.u32.u32", "no matrix"),
    ],
)
def test_what_ptx_has_beside_matrices_is_named_as_such(name, words):
    code, said = refusal("show", name)
    assert (code, "no fragment" in said) == (2, False)
    assert words in said


def test_operands_in_shared_memory_are_known_everywhere():
    """A command that has no answer about one says which has."""
    name = "wgmma.mma_async.m64n24k16.f32.bf16.bf16.b_smem"
    assert f"`tcprobe show {name}`" in refusal("reduce", name, "--over", "row")[1]
    assert "target sm_90a" in answer("why-not", name, "--arch", "sm_80")["words"]
    assert answer("why-not", name, "--arch", "h100")["measured"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--fill", "cp.async"), "cp.async copies only from global to shared memory"),
        (("--fill", "tma", "--shared", "pad:16"), "tma: "),
        (("--fill", "tma", "--ld", "35"), "140 bytes"),
    ],
)
def test_a_path_without_an_access_is_refused_for_what_is_in_the_way(options, reason):
    """Not because the access that is tried first moves no registers of this type."""
    said = refusal("path", "mma.m16n8k16.row.col.f32.f16.f16.f32.d", "--tile", "32x32", *options)[1]
    assert reason in said
    assert "stmatrix" not in said


def test_a_large_map_with_one_wrong_element_is_no_layout_soon(tmp_path):
    """Hundreds of swizzles leave the parts of it that are looked at first as they should be."""
    rows = [[row * 300 + col + (row == 37 and col == 41) for col in range(256)] for row in range(256)]
    (tmp_path / "map").write_text("\n".join(" ".join(map(str, row)) for row in rows))
    start = time.process_time()
    assert "no layout" in refusal("swizzle", "fit", tmp_path / "map")[1]
    assert time.process_time() - start < 5


def test_two_ways_of_one_conversion_fit_into_one_file(tmp_path):
    """Their functions have names of their own."""
    pair = ("mma.m16n8k16.row.col.f32.f16.f16.f32.d", "mma.m16n8k16.row.col.f32.f16.f16.f32.a")
    functions = set()
    for number, option in enumerate(((), ("--transpose",), ("--permute-k",))):
        done = CliRunner().invoke(main, ["convert", *pair, *option, "-o", str(tmp_path / str(number))])
        assert done.exit_code == 0, done.output
        functions |= set(re.findall(r"void (\w+)\(", (tmp_path / str(number)).read_text()))
    assert len(functions) == 3
    for option in ((), ("--global", "col"), ("--shared", "pad:16")):
        done = CliRunner().invoke(
            main, ["convert", "m16n8k16.f16.f16.f16.f16.d", "stmatrix.x2", *option, "-o", str(tmp_path / "store")]
        )
        assert done.exit_code == 0, done.output
        functions |= set(re.findall(r"void (\w+)\(", (tmp_path / "store").read_text()))
    assert len(functions) == 9
