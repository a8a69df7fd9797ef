"""`tcprobe kernel gemm` for Blackwell: it compiles, its descriptors say what the tiles are, and products are exact."""

import json
import re
import shutil

import numpy as np
import nvrtc
import pytest
from click.testing import CliRunner

from tcprobe.cli import main
from tcprobe.emulate.matrix_words import InstructionWord, SharedWord
from tcprobe.emulate.run import Options
from tcprobe.emulate.tensor_memory import FENCE
from tcprobe.errors import UsageError
from tcprobe.kernel import tcgen05
from tcprobe.kernel.emulated import emulate_product
from tcprobe.kernel.explain import explain
from tcprobe.kernel.gemm import GemmOptions, gemm
from tcprobe.kernel.staged import OUTS, SCALED

KINDS = [(kind, group) for kind in tcgen05.KINDS for group in (1, 2)]
MAJORS = [("row", "col"), ("col", "row"), ("row", "row"), ("col", "col")]
TURNED = ("f16", "bf16", "e4m3", "e5m2", "s8", "mxf8")


def compiled(made):
    library = nvrtc.library()
    if not library:
        pytest.skip("no compiler")
    return nvrtc.compile_cuda(library, made.source, f"-arch={made.gemm.compiled_for}", "-std=c++17")


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("kind", "group"), KINDS)
@pytest.mark.parametrize("majors", MAJORS)
def test_every_kernel_of_tensor_memory_compiles_without_a_word(kind, group, majors):
    if majors != ("row", "col") and kind not in TURNED:
        with pytest.raises(UsageError):
            gemm(GemmOptions("sm_100", kind, a=majors[0], b=majors[1], cta_group=group))
        return
    for out in OUTS[kind][-1:]:
        assert compiled(gemm(GemmOptions("sm_100", kind, a=majors[0], b=majors[1], out=out, cta_group=group))) == (
            True,
            "",
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", SCALED)
@pytest.mark.parametrize("out", OUTS["nvf4"])
def test_every_kernel_with_scales_of_registers_compiles_without_a_word(kind, out):
    assert compiled(gemm(GemmOptions("sm_120", kind, out=out))) == (True, "")


def words(made):
    """The descriptors of A and B, and the multiplies' instruction descriptors, as the text has them."""
    shared = [int(re.search(rf"long long {name} = (0x\w+)ull", made.source)[1], 16) for name in "ab"]
    found = re.findall(r" multiply\(tmem, a \+ (\d+), b \+ (\d+), (0x\w+)u, ", made.source)
    return shared, [(int(a), int(b), int(word, 16)) for a, b, word in found]


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("kind", "group"), KINDS)
@pytest.mark.parametrize("majors", MAJORS)
def test_descriptors_say_to_the_emulator_what_the_tiles_are(kind, group, majors):
    """Read by the emulator's own text of PTX, every step leads to the bytes of its k of every line."""
    if majors != ("row", "col") and kind not in TURNED:
        return
    made = gemm(GemmOptions("sm_100", kind, a=majors[0], b=majors[1], cta_group=group))
    asked, (shared, steps) = made.gemm, words(made)
    step_k = asked.instruction.shape.k
    assert len(steps) == asked.tile[2] // step_k
    for number, (*starts, bits) in enumerate(steps):
        word = InstructionWord.read(asked.instruction.kind, bits)
        assert (word.m, word.n, word.k) == (128 * group, asked.tile[1], step_k)
        assert (word.a, word.b) == (asked.element, asked.element)
        assert (word.k_major_a, word.k_major_b) == (majors[0] == "row", majors[1] == "col")
        if kind in SCALED:
            assert word.scale == SCALED[kind].scale
            assert word.id_a == word.id_b == number * step_k // SCALED[kind].block % 4
        for name, value, start in zip("ab", shared, starts, strict=True):
            tile = asked.tiles[name]
            packed = asked.tile[2] // tile.k
            read = SharedWord.read(value + start)
            line, k = np.indices((tile.lines, step_k // packed))
            size = tile.bits // 8
            along_k = tile.major == "k"
            found = read.addresses(along_k, *((line, k * size) if along_k else (k, line * size)))
            assert (found == tile.offset(line, k + number * step_k // packed)).all()


REFUSED = {
    ("sm_100", "bf16", (64, 128, 64)): "nearest: m 128",
    ("sm_100", "bf16", (128, 100, 64)): "nearest: n 96",
    ("sm_100", "bf16", (128, 512, 64)): "nearest: n 256",
    ("sm_100", "nvf4", (128, 64, 256)): "nearest: n 128",
    ("sm_100", "nvf4", (128, 128, 96)): "nearest: k 128",
    ("sm_100", "nvf4", (128, 256, 256), None, 5): "`stages` 4 fits",
    ("sm_100", "mxf8", (128, 256, 128), None, 5): "shared memory",
    ("sm_100", "nvf4", None, None, None, "col"): "k contiguous only",
    ("sm_100", "tf32", None, None, None, "col"): "use `major` k",
    ("sm_100", "bf16", None, (2, 2)): "4x1",
    ("sm_103", "s8", None, None, None, "row", "col", None, None, None, 1, 2): "only kernels of tcgen05.mma",
    ("sm_90", "nvf4"): "sm_90 has no multiply of nvf4",
    ("sm_89", "mxf8"): "sm_120 is the first",
    ("sm_100", "nvf4", None, None, None, "row", "col", None, None, "mma"): "sm_120 is the first",
    ("sm_120", "mxf8", (128, 128, 64)): "not a multiple of 128",
    ("sm_120", "nvf4", None, None, None, "row", "row"): "nvf4",
    ("sm_120", "bf16", None, None, None, "row", "col", None, None, None, 1, 2): "only kernels of tcgen05.mma",
    ("sm_90", "bf16", None, None, None, "row", "col", None, None, None, 1, 1): "only kernels of tcgen05.mma",
    ("sm_100", "bf16", None, None, None, "row", "col", None, None, None, 1, 3): "one of None, 1, 2",
    ("sm_100", "bf16", None, None, None, "row", "col", None, None, None, 2): "only the kernel of sm_90 has clusters",
}


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_what_cannot_be_is_refused_with_what_can(options):
    with pytest.raises(UsageError, match=re.escape(REFUSED[options])):
        gemm(GemmOptions(*options))


@pytest.mark.parametrize(("kind", "group"), [("f16", 1), ("nvf4", 2)])
def test_every_element_of_a_tile_has_a_place_of_its_own(kind, group):
    made = gemm(GemmOptions("sm_100", kind, cta_group=group))
    for operand, whole in ((0, 128 * group), (1, made.gemm.tile[1])):
        places = set()
        for line in range(0, whole, 7):
            for k in range(0, made.gemm.tile[2], 26):
                at = (line, 0, k) if operand == 0 else (0, line, k)
                text = explain(made, at)[operand]["steps"][1]
                places.add(re.search(r"to byte (\d+) of stage 0( of block (\d))?", text).groups())
        assert len(places) == len(range(0, whole, 7)) * len(range(0, made.gemm.tile[2], 26))
    assert explain(made, (130, 5, 0))[2]["steps"][0].startswith("tensor memory: lane 2, column 5")


def test_the_command_says_what_it_rests_on_and_what_a_launch_needs():
    asked = ["kernel", "gemm", "--arch", "sm_100", "--type", "nvf4", "--cta-group", "2"]
    printed = CliRunner().invoke(main, asked).output
    assert "it has run on no GPU yet" in printed
    launch = json.loads(CliRunner().invoke(main, [*asked, "--size", "300x300x300", "--json"]).stdout)
    assert (launch["target"], launch["cluster"], launch["grid"]) == ("sm_100a", 2, [2, 4, 1])
    assert launch["parameters"] == ["map_a", "map_b", "map_d", "sfa", "sfb", "d", "ldd", "m", "n", "k"]
    assert "no GPU yet: documents and emulation" in launch["evidence"]
    mma = json.loads(CliRunner().invoke(main, [*asked[:5], "f16", "--multiply", "mma", "--json"]).stdout)
    assert (mma["multiply"][:13], mma["target"]) == ("mma.m16n8k16.", "sm_100")
    for budget in (asked, ["kernel", "gemm", "--arch", "sm_120", "--type", "mxf4"]):
        assert CliRunner().invoke(main, [*budget, "--budget"]).exit_code == 0


# small tiles and two stages, so that the ring goes around; sides that no tile divides
EMULATED = [
    (GemmOptions("sm_100", "bf16", (128, 32, 64), stages=2), (70, 38, 290)),
    (GemmOptions("sm_100", "nvf4", (128, 128, 64), stages=2, out="f32", cta_group=2), (140, 130, 210)),
    (GemmOptions("sm_120", "mxf8", (64, 64, 128), stages=2, warps=(2, 2)), (70, 38, 290)),
    (GemmOptions("sm_100", "f16", (128, 64, 32), stages=3, a="col", b="row", out="f16", cta_group=2), (200, 70, 140)),
    (GemmOptions("sm_100", "e4m3", (128, 32, 64), stages=2, a="col", cta_group=2), (40, 33, 400)),
    (GemmOptions("sm_100", "tf32", (128, 32, 16), stages=3), (130, 31, 70)),
    (GemmOptions("sm_100", "s8", (128, 64, 64), stages=2, b="row"), (129, 65, 200)),
    (GemmOptions("sm_100", "mxf8", (128, 128, 128), stages=2, out="f16"), (130, 129, 300)),
    (GemmOptions("sm_100", "mxf4", (128, 256, 128), stages=3), (20, 257, 500)),
    (GemmOptions("sm_120", "mxf4", (64, 64, 128), stages=3, warps=(1, 2), out="f32"), (66, 65, 300)),
    (GemmOptions("sm_120", "nvf4", (64, 64, 128), stages=2, warps=(2, 2), out="f16"), (63, 70, 330)),
]


@pytest.mark.sampled(12)
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc here")
@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize(("options", "size"), EMULATED, ids=str)
def test_products_are_exact_on_the_cpu(options, size, schedule):
    found = emulate_product(gemm(options), size, Options(schedule=schedule, seed=7))
    assert found.report.findings == []
    assert not any(FENCE in note for note in found.report.notes)
    assert (found.wrong, found.outside, found.report.finished) == (0, 0, True)


SPOILT = [
    ("wait(done, 0);", ";"),
    ("tile / STAGES % 2 ^ 1);", "tile / STAGES % 2);"),
    ('  if (warp == 2)\n    asm volatile("tcgen05.dealloc.', '  if (warp == 9)\n    asm volatile("tcgen05.dealloc.'),
    ("multiply(tmem, a + 2", "multiply(tmem, a + 4"),
    ("fence.proxy.async.shared::cta;", ""),
]


@pytest.mark.sampled(3)
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc here")
@pytest.mark.parametrize(("text", "instead"), SPOILT)
def test_a_kernel_that_is_spoilt_in_one_place_is_noticed(text, instead):
    made = gemm(EMULATED[0][0])
    assert text in made.source
    spoilt = made.__class__(made.name, made.source.replace(text, instead, 1), made.gemm)
    assert not emulate_product(spoilt, EMULATED[0][1], Options(most=200_000)).right
