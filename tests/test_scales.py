"""Scale factors from the host to the multiply: every scale comes to where the tables say that it is read."""

import itertools
import shutil
import subprocess

import cute_dsl
import nvrtc
import pytest
from command import tcprobe

from tcprobe.ask.scales import scale_json, scales_in_registers, scales_in_tensor_memory
from tcprobe.ask.tensor_memory import OperandVariant, operand, placement
from tcprobe.errors import UsageError
from tcprobe.references import tensor_memory
from tcprobe.store.cell import load, selections

NAMES = [
    "nvfp4 scale_a",
    "nvfp4 scale_b",
    "mxfp4 scale_a",
    "mxfp4 scale_b",
    *(f"mma.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0.scale_{x}" for x in "ab"),
]
BLOCKS, LINES = 6, 300
MAIN = """#include <cstdio>
#include <cstdint>
%s
int main() {
  for (unsigned line = 0; line < %d; ++line) for (unsigned block = 0; block < %d; ++block)
    printf("%%llu\\n", f_offset(line, block, %d));
%s}
"""


def test_an_atom_is_cutlasss():
    """((32, 4), 4) : ((16, 4), 1), tiled along k first: every byte once."""
    for line, block in itertools.product(range(128), range(4)):
        assert tensor_memory.scale_offset(line, block, 4) == line % 32 * 16 + line // 32 * 4 + block
    found = {tensor_memory.scale_offset(line, block, 8) for line, block in itertools.product(range(256), range(8))}
    assert found == set(range(2048))


@pytest.mark.consumer
def test_as_cute_dsl_tiles_it(monkeypatch):
    cute = cute_dsl.for_arch(monkeypatch, "sm_100a")
    from cutlass.utils.blockscaled_layout import tile_atom_to_shape_SF

    found = []

    @cute.jit
    def compare():
        layout = tile_atom_to_shape_SF((256, 16 * 8, 1), 16)
        found.extend(
            (line, block, layout((line, 16 * block, 0))) for line, block in itertools.product(range(256), range(8))
        )

    compare()
    assert [at for line, block, at in found] == [tensor_memory.scale_offset(line, block, 8) for line, block, _ in found]
    assert len(found) == 2048


@pytest.mark.parametrize("name", NAMES)
def test_registers_hold_what_every_selector_reads(name):
    """Under each byte-id and thread-id the byte that is read is that block's of that line."""
    cell = load(name)
    found = scales_in_registers(cell)
    for one in selections(cell):
        picked = cell.fragment.picked(one.selector)
        for slot, element in enumerate(one.table.cells):
            if element is not None:
                lane, i = divmod(slot, one.table.elements)
                line, scale = element if cell.fragment.operand == "scale_a" else element[::-1]
                assert found.line(lane=lane, i=0) == line
                block = picked["byte_id"] + scale
                read = found.reads(block)
                assert (read.byte_id, read.scale, i) == (picked["byte_id"], scale, block)
                assert lane in scale_json(found, line, block, 4)["lanes"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("name", NAMES[::2])
def test_the_code_on_the_host(name, tmp_path):
    """Offsets of all scales, and the words of all lanes of a tile, of whose bytes each is the one at its offset."""
    found = scales_in_registers(load(name))
    probe = found.code("f", "").replace(
        "*reinterpret_cast<const unsigned*>(host + f_offset(line, block, blocks))",
        "(unsigned)f_offset(line, block, blocks)",
    )
    probe = probe.replace("const unsigned char* host", "const unsigned char*")
    assert "reinterpret_cast" not in probe
    words = "".join(f'  printf("%u\\n", f(0, 16, 4, {BLOCKS}, {lane}));\n' for lane in range(32))
    source = tmp_path / "code.cpp"
    source.write_text(MAIN % (probe, LINES, BLOCKS, BLOCKS, words))
    subprocess.run(["g++", "-Wall", "-Werror", "-o", str(tmp_path / "code"), str(source)], check=True)
    out = subprocess.run([str(tmp_path / "code")], check=True, capture_output=True, text=True).stdout.split()
    wanted = [
        tensor_memory.scale_offset(line, block, BLOCKS)
        for line, block in itertools.product(range(LINES), range(BLOCKS))
    ]
    wanted += [tensor_memory.scale_offset(16 + found.line(lane=lane, i=0), 4, BLOCKS) for lane in range(32)]
    assert list(map(int, out)) == wanted


@pytest.mark.parametrize(
    ("name", "m", "n", "vector"),
    [
        ("tcgen05.mma.cta_group::1.kind::mxf8f6f4", 128, 256, 1),
        ("tcgen05.mma.cta_group::1.kind::mxf4", 128, 200, 2),
        ("tcgen05.mma.cta_group::2.kind::mxf4nvf4", 256, 128, 4),
        ("tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4", 128, 64, 1),
    ],
)
def test_copied_atoms_lie_where_the_multiply_reads_them(name, m, n, vector):
    for which in ("scale_a", "scale_b"):
        in_memory = operand(f"{name}.{which}")
        found = scales_in_tensor_memory(in_memory, OperandVariant(m, n, 0, vector))
        for block in range(4):
            read = found.reads(block)
            said = placement(in_memory, OperandVariant(m, n, read.byte_id, vector)).statement
            for line in range(found.lines):
                element = (line, read.scale) if which == "scale_a" else (read.scale, line)
                assert set(found.cells(line, block)) == {p for p in said.holding(*element) if p.cta == 0}


def test_code_is_compiled():
    lib = nvrtc.library()
    if lib is None:
        pytest.skip("no NVRTC")
    copied = scales_in_tensor_memory(operand("tcgen05.mma.cta_group::2.kind::mxf4.scale_b"), OperandVariant(256))
    for code, target in ((scales_in_registers(load(NAMES[0])).code("f"), "sm_120a"), (copied.code("f"), "sm_100a")):
        done, log = nvrtc.compile_cuda(lib, code, f"-arch={target}")
        assert (done, log) == (True, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mma.m16n8k16.row.col.f32.f16.f16.f32.a"], "holds no scales"),
        (["tcgen05.mma.cta_group::1.kind::f16.d"], "holds no scales"),
        (["tcgen05.mma.cta_group::2.kind::mxf4.scale_b", "--m", "128"], "is not the same in all lanes"),
        (["tcgen05.mma.cta_group::1.kind::mxf4nvf4.scale_b"], "--scale-vec"),
        (["tcgen05.mma.cta_group::2.kind::mxf4.k96.scale_a"], "do not divide an atom"),
        (["nvfp4", "scale_a", "--line", "0", "--block", "4"], "has 4 blocks"),
        (["nvfp4", "scale_a", "--m", "128"], "needs an operand in tensor memory"),
        (["m16n8k64", "mxf4"], "f32.ue8m0.scale_b\n"),
        (["tcgen05", "mxf4"], " tcgen05.mma.cta_group::1.kind::mxf4.scale_a\n"),
        (["tcgen05.mma.cta_group::1.kind::mxf4.scale_a", "--line", "128"], "has no line"),
        (["nvfp4", "scale_a", "--line", "0", "--blocks", "999999999999999999"], "located at once"),
    ],
)
def test_mistakes(words, said):
    assert said in tcprobe("scales", *words, code=2).output


def test_numbers_are_bounded():
    with pytest.raises(UsageError, match="blocks"):
        scale_json(scales_in_registers(load(NAMES[0])), 0, 9, 8)
