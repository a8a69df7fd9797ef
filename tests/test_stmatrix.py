"""From accumulators through stmatrix into shared memory: every byte comes to its place, by the plan and by the code."""

import json
import random
import re

import numpy as np
import nvrtc
import pytest
from command import tcprobe

from tcprobe import emit
from tcprobe.ask.convert.code import header
from tcprobe.ask.convert.conversion import NOTHING, QUAD, RENAMED
from tcprobe.ask.convert.moves import run
from tcprobe.ask.convert.stmatrix import StoreOptions, plan_store, plan_store_code
from tcprobe.ask.descriptor import tile
from tcprobe.code.names import identifier
from tcprobe.errors import UsageError
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.banks import IDLE
from tcprobe.layout.expression import values
from tcprobe.references.shared_memory.catalogue import Options, tabulate
from tcprobe.run import multiplicands
from tcprobe.run.verify import HELPERS
from tcprobe.store.cell import load

BF16, S8, E4M3 = "wgmma.m64n64k16.f32.bf16.bf16.d", "wgmma.m64n64k32.s32.s8.s8.d", "wgmma.m64n64k32.f32.e4m3.e4m3.d"
HALF = "wgmma.m64n24k16.f16.f16.f16.d"
MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32.d"
CASES = [
    (BF16, ("stmatrix", "bf16", "row", "sw:3,4,3"), "stmatrix.x4", RENAMED, {"cvt": 16}),
    (BF16, ("stmatrix.x2", "bf16", "row", "pad:16"), "stmatrix.x2", RENAMED, {"cvt": 16}),
    (BF16, ("stmatrix", "f16", "col", "SWIZZLE_128B"), "stmatrix.x4.trans", RENAMED, {"cvt": 16}),
    (BF16, ("stmatrix.x1", "e4m3", "row", "plain"), "stmatrix.x1", QUAD, None),
    (E4M3, ("stmatrix", "bf16", "col", "pad:16"), "stmatrix.x4.trans", RENAMED, {"cvt": 16}),
    (E4M3, ("stmatrix", "e5m2", "row", "SWIZZLE_64B"), "stmatrix.x4", QUAD, None),
    (S8, ("stmatrix", "s8", "row", "sw:2,4,3"), "stmatrix.x4", QUAD, None),
    (S8, ("stmatrix", None, "row", "pad:32"), "stmatrix.x4", QUAD, None),
    ("wgmma.m64n128k16.f32.bf16.bf16.d", ("stmatrix", "bf16", "row", "boxes:128"), "stmatrix.x4", RENAMED, {"cvt": 32}),
    ("wgmma.m64n64k16.f32.bf16.bf16.d", ("stmatrix", "bf16", "col", "boxes:64"), "stmatrix.x4.trans", RENAMED, None),
    (S8, ("stmatrix", "s8", "row", "boxes:32"), "stmatrix.x4", QUAD, None),
    (HALF, ("stmatrix", None, "row", "boxes:32"), None, "do not fill boxes", None),
    (HALF, ("stmatrix", None, "row", "boxes:48"), None, "rows of 32, 64 or 128", None),
    (HALF, ("stmatrix",), "stmatrix.x2", RENAMED, {}),
    (HALF, ("stmatrix.x2.trans", None, "col", "pad:16"), "stmatrix.x2.trans", RENAMED, {}),
    (MMA, ("stmatrix", "f16"), "stmatrix.x2", RENAMED, {"cvt": 2}),
    (MMA, ("stmatrix.x1", "f16", "row", "pad:8"), None, "break them", None),
    ("wgmma.m64n8k16.f16.f16.f16.d", ("stmatrix",), "stmatrix.x2", NOTHING, {}),
    ("wgmma.m64n8k16.f16.f16.f16.d", ("stmatrix.x4",), None, "do not fill", None),
    ("wgmma.m64n24k32.f32.e4m3.e4m3.d", ("stmatrix", "e4m3", "row", "pad:8"), None, "stmatrix: a warp holds", None),
    (HALF, ("stmatrix", None, "row", "SWIZZLE_128B"), "stmatrix.x2", RENAMED, {}),
    (HALF, ("stmatrix", None, "row", "SWIZZLE_48B"), None, "boxes:BYTES or a swizzle", None),
    ("wgmma.m64n8k16.f16.f16.f16.d", ("stmatrix.x3",), None, "is not one of stmatrix", None),
    ("wgmma.m64n8k16.f16.f16.f16.d", ("stmatrix", "bf16"), None, "no conversion from f16 to bf16", None),
    ("mma.m8n8k128.row.col.s32.b1.b1.s32.xor.popc.a", ("stmatrix",), None, "8, 16 or 32 bits", None),
    (S8, ("stmatrix.x2.trans", None), None, "stores no elements of 32 bits", None),
    ("mma.sp.m16n8k16.row.col.f32.f16.f16.f32.e", ("stmatrix",), None, "index fields", None),
]


def memory_of(found):
    """What lies at every byte that is written: (row, col, byte of the element), as the instruction stores it."""
    plan, tiling, bits = found.conversion.plan, found.conversion.tiling, found.tile.bits
    held, units = run(plan, tiling), found.conversion.plan.units
    lying, trans = {}, "trans" in found.access
    rows = tiling.source.fragment.rows
    for thread, issue in np.ndindex(found.cell.fragment.threads, len(found.addresses)):
        warp, lane = divmod(thread, 32)
        for register in range(found.block.down * found.block.across):
            word = held[lane][issue, register]
            content = [(unit[0][0] + warp * rows, unit[0][1], byte) for unit in word for byte in range(bits // 8)]
            assert len(content) == 4
            assert units == 32 // bits
            for half in range(2):
                row, col = (2 * (lane % 4) + half, lane // 4) if trans else (lane // 4, 2 * (lane % 4) + half)
                start = found.addresses[issue, 32 * warp + 8 * register + row] + 2 * col
                for byte in range(2):
                    assert start + byte not in lying
                    lying[start + byte] = content[2 * half + byte]
    return lying


@pytest.mark.parametrize(("name", "options", "access", "words", "costs"), CASES, ids=lambda v: str(v)[:40])
def test_every_byte_comes_to_its_place(name, options, access, words, costs):
    if access is None:
        with pytest.raises(UsageError, match=words):
            plan_store(load(name), StoreOptions(*options))
        return
    found = plan_store(load(name), StoreOptions(*options))
    assert (found.access, found.conversion.summary) == (access, words)
    assert costs in (None, found.conversion.costs)
    own, size = found.tile, found.tile.bits // 8
    wanted = {}
    for row, col, byte in np.ndindex(own.rows, own.cols, size):
        line, place = (row, col) if own.contiguous == "row" else (col, row)
        wanted[int(found.shared.offset(own, line, place * size + byte))] = (row, col, byte)
    assert memory_of(found) == wanted


@pytest.mark.parametrize(("name", "options"), [case[:2] for case in CASES if case[2]], ids=lambda v: str(v)[:40])
def test_the_formula_is_every_address(name, options):
    found = plan_store(load(name), StoreOptions(*options))
    for issue, row in enumerate(found.addresses):
        text = str(found.formula).replace("issue", str(issue))
        for warp in range(len(row) // 32):
            said = values(text.replace("lane", f"(lane + {32 * warp})"))
            assert all(at in (IDLE, one) for at, one in zip(row[32 * warp :], said, strict=False))


@pytest.mark.parametrize(("name", "mode"), [(HALF, "64B"), (HALF, "128B"), (BF16, "128B")])
def test_a_tile_of_a_tensor_maps_mode_lies_as_its_box_does(name, mode):
    """Rows narrower than the span of the mode are the span apart."""
    found = plan_store(load(name), StoreOptions("stmatrix", "f16", "row", f"SWIZZLE_{mode}"))
    box = tabulate(f"SWIZZLE_{mode}", (found.tile.cols, found.tile.rows), Options(bits=16)).offsets
    for row, col in np.ndindex(found.tile.rows, found.tile.cols):
        assert found.shared.offset(found.tile, row, 2 * col) == box[col][row]


def test_the_command(tmp_path):
    data = json.loads(tcprobe("convert", BF16, "stmatrix", "--type", "bf16", "--shared", "sw:3,4,3", "--json").stdout)
    assert (data["access"], data["threads"], data["alignment"], len(data["issues"])) == ("stmatrix.x4", 128, 1024, 4)
    assert [len(row) for row in data["issues"]] == [128] * 4
    assert data["issues"][0][40] == 3072
    assert "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0]" in data["code"]
    tcprobe("convert", BF16, "stmatrix", "--type", "bf16", "-o", str(tmp_path / "store.h"), "--namespace", "mine")
    assert "namespace mine {" in (tmp_path / "store.h").read_text()
    for wrong in (["--type", "bf16"], ["--shared", "plain"], ["--global", "col"]):
        assert "stmatrix" in tcprobe("convert", BF16, BF16.replace(".d", ".a"), *wrong, code=2).output
    assert "contiguous" in tcprobe("convert", BF16, "stmatrix", "--transpose", code=2).output
    assert "type" in tcprobe("convert", BF16, "stmatrix", "--type", "f17", code=2).output


@pytest.mark.full
def test_any_accumulator_of_a_warpgroup_can_be_stored():
    """Random N and types; a block that does not fit is never half stored."""
    rng = random.Random(5)
    for _ in range(12):
        n = rng.choice(range(8, 257, 8))
        found = plan_store(load(f"wgmma.m64n{n}k16.f32.bf16.bf16.d"), StoreOptions("stmatrix", "bf16", placed="pad:16"))
        assert len(memory_of(found)) == 64 * n * 2


@pytest.mark.parametrize(
    ("name", "kind", "major", "width"),
    [
        ("wgmma.m64n128k16.f32.bf16.bf16.d", "bf16", "row", 128),
        ("wgmma.m64n96k16.f32.bf16.bf16.d", "f16", "row", 64),
        ("wgmma.m64n128k16.f32.bf16.bf16.d", "bf16", "col", 128),
        ("wgmma.m64n128k32.s32.s8.s8.d", "s8", "row", 32),
    ],
)
def test_boxes_are_a_tile_of_the_next_wgmma(name, kind, major, width):
    """D as A, rows or columns contiguous, lies where `tcprobe descriptor` says."""
    found = plan_store(load(name), StoreOptions("stmatrix", kind, major, f"boxes:{width}"))
    next_ = tile((64, found.tile.cols), kind, "k" if major == "row" else "mn", width)
    size = found.tile.bits // 8
    for at, (row, col, byte) in memory_of(found).items():
        assert at == next_.offset(row, col) + byte
    assert found.shared.bytes(found.tile) == next_.bytes == 64 * found.tile.cols * size


KEEP = """
extern "C" __global__ void keep_{number}(const u64* matrix, unsigned char* out) {{
  extern __shared__ unsigned char given[];
  const unsigned first = static_cast<unsigned>(__cvta_generic_to_shared(given));
  unsigned char* const tile = given + ({alignment} - first % {alignment}) % {alignment};
  for (int at = threadIdx.x; at < {bytes}; at += blockDim.x) tile[at] = 0;
  __syncthreads();
  unsigned registers[tcprobe::{f}::registers];
  gather<tcprobe::{f}>(threadIdx.x, matrix, tcprobe::{f}::cols, -1, false, registers);
  f{number}(static_cast<unsigned>(__cvta_generic_to_shared(tile)), threadIdx.x,
            reinterpret_cast<const {word} (&)[1][{count}]>(registers));
  __syncthreads();
  for (int at = threadIdx.x; at < {bytes}; at += blockDim.x) out[at] = tile[at];
}}
"""


def programs():
    """Every case that there is with its kernel, and the whole source."""
    found = []
    for number, (name, options, access, *_) in enumerate(CASES):
        if access:
            one = plan_store_code(load(name), StoreOptions(*options), f"f{number}")
            word, count = re.search(
                rf"void f{number}\(.*const (\w+) \(&from\)\[1\]\[(\d+)\]", one.conversion.code
            ).groups()
            text = KEEP.format(
                number=number,
                alignment=one.alignment,
                bytes=one.shared.bytes(one.tile),
                word=word,
                count=count,
                f=identifier(one.cell.fragment.id),
            )
            found.append((number, one, text))
    cells = {one.cell.fragment.id: one.cell for _, one, _ in found}
    parts = [emit.emit("cuda", list(cells.values())), HELPERS, header([one.conversion for _, one, _ in found])]
    return found, "\n".join([*parts, *(text for *_, text in found)])


@pytest.mark.full
def test_nvrtc_compiles_what_runs_on_the_gpu():
    done, log = nvrtc.compile_cuda(nvrtc.library(), programs()[1], "-arch=sm_90", "-std=c++17")
    assert done, log


@pytest.mark.gpu
def test_on_a_gpu_every_byte_comes_to_its_place():
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(0)
    if gpu.devices()[0].arch != "sm_90":
        pytest.skip("the tables are sm_90's")
    found, text = programs()
    gpu.compile_cuda(text, [f"keep_{number}" for number, *_ in found])
    for number, one, _ in found:
        tile, fragment = one.tile, one.cell.fragment
        matrix = np.random.default_rng(number).integers(-7, 8, (tile.rows, tile.cols))
        made = np.zeros(one.shared.bytes(tile), np.uint8)
        shape = (fragment.threads, len(made) + one.alignment)
        gpu.call(f"keep_{number}", 1, [multiplicands.patterns(matrix, fragment)], made, shape)
        wanted = np.zeros_like(made)
        bits = [[dtype(tile.type).pattern(v, tile.bits) for v in row] for row in matrix.tolist()]
        for row, col, byte in np.ndindex(tile.rows, tile.cols, tile.bits // 8):
            line, place = (row, col) if tile.contiguous == "row" else (col, row)
            wanted[one.shared.offset(tile, line, place * tile.bits // 8 + byte)] = bits[row][col] >> 8 * byte & 255
        assert np.array_equal(made, wanted), CASES[number]
