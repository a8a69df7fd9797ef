"""A product of signed 4-bit and 8-bit numbers, on ldmatrix .s8.s4 and the code of `convert`: D = A W^T, with W packed.

NVRTC passes inline assembly through, so that a compiler which does not know the instruction writes the PTX, and a ptxas
of CUDA 13.4 or later (CUDA_HOME, or the wheel nvidia-cuda-nvcc) assembles it.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import nvrtc
import pytest

from tcprobe.ask.convert import convert
from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import arch
from tcprobe.sass import toolchain
from tcprobe.sass.toolchain import Ptxas
from tcprobe.store.cell import load
from tcprobe.store.results import Results

MMA = "mma.m16n8k32.row.col.s32.s8.s8.s32"
K, LINES = 128, 32
STRIDE = K // 2 + 8  # bytes from line to line of W in shared memory: any multiple of 8
KERNEL = """
extern "C" __global__ void product(const unsigned char* w, const unsigned (*a)[32][4], int (*d)[32][4]) {
  __shared__ __align__(8) unsigned char held[32 * %(stride)d];
  const int lane = threadIdx.x;
  for (int i = 0; i < %(bytes)d; ++i) held[lane * %(stride)d + i] = w[lane * %(bytes)d + i];
  __syncwarp();
  int sum[4][4] = {};
  for (int step = 0; step < %(steps)d; ++step) {
    unsigned from[2][4], b[4][2];
    for (int half = 0; half < 2; ++half) {
      const unsigned at = (unsigned)__cvta_generic_to_shared(held + lane * %(stride)d + step * 16 + half * 8);
      asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.s8.s4 {%%0, %%1, %%2, %%3}, [%%4];"
                   : "=r"(from[half][0]), "=r"(from[half][1]), "=r"(from[half][2]), "=r"(from[half][3]) : "r"(at));
    }
    convert(from, b);
    const unsigned* x = a[step][lane];
    for (int j = 0; j < 4; ++j) {
      int* s = sum[j];
      asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%%0, %%1, %%2, %%3}, {%%4, %%5, %%6, %%7}, "
                   "{%%8, %%9}, {%%0, %%1, %%2, %%3};" : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])
                   : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(b[j][0]), "r"(b[j][1]));
    }
  }
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < 4; ++i) d[j][lane][i] = sum[j][i];
}
"""


def cells():
    return load("ldmatrix.m8n16.x4.shared.s8.s4.d", "sm_90"), *(load(f"{MMA}.{o}", "sm_90") for o in "abd")


def text():
    loaded, _, b, _ = cells()
    size = {"stride": STRIDE, "bytes": K // 2, "steps": K // 32}
    return convert(loaded, b).code + KERNEL % size


def ptxas():
    """A ptxas that knows PTX 9.4; the test is skipped without."""
    try:
        found = Ptxas(toolchain.compiler(), 60.0)
    except EnvironmentUnfitError as error:
        pytest.skip(str(error))
    if tuple(map(int, re.findall(r"\d+", found.name)))[:2] < (13, 4):
        pytest.skip(f"{found.name} does not know ldmatrix .s8.s4: set CUDA_HOME to CUDA 13.4 or later")
    return found


def newer(ptx):
    """The same module for a compiler that knows PTX 9.4."""
    return re.sub(r"^\.version .*$", ".version 9.4", ptx, count=1, flags=re.M)


def packed(w):
    """Two numbers a byte, the first in the low bits."""
    return np.ascontiguousarray((w[:, ::2] & 15 | (w[:, 1::2] & 15) << 4).astype(np.uint8))


def registers(a, table):
    """A's registers of every step, as the table has them."""
    steps = [[a[row, 32 * step + col] for row, col in table.cells] for step in range(K // 32)]
    return np.array(steps, np.int8).reshape(K // 32, 32, 16).view(np.uint32)


def test_by_the_tables_alone():
    """What ldmatrix leaves in registers, renamed as `convert` says, is B wherever the multiply looks for it."""
    loaded, _, b, _ = cells()
    w = np.random.default_rng(0).integers(-8, 8, (LINES, 32))
    (names,) = {tuple(map(tuple, re.findall(r"to\[(\d)\]\[(\d)\] = (w\d)", convert(loaded, b).code)))}
    words = dict(re.findall(r"(w\d) = (from\[\d\]\[\d\])", convert(loaded, b).code))
    for lane in range(32):
        for tile, register, word in names:
            half, number = map(int, re.findall(r"\d", words[word]))
            for byte in range(4):
                line, k = loaded.table.cells[lane * 16 + 4 * number + byte]
                row, col = b.table.cells[lane * 8 + 4 * int(register) + byte]
                assert w[line, k + 16 * half] == w.T[row, col + 8 * int(tile)]


def test_it_is_assembled():
    made, log = ptxas().assemble(arch("sm_90"), newer(nvrtc.ptx(nvrtc.library(), text(), "-arch=compute_90a")), True)
    assert made, log


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(4))
def test_the_product_is_numpys(seed):
    import cupy

    compiler, (_, a_cell, _, d_cell) = ptxas(), cells()
    if cupy.cuda.Device().compute_capability != "90":
        pytest.skip("the tables are sm_90's")
    program = cupy.cuda.nvrtc.createProgram(text(), "w4a8.cu", (), ())
    cupy.cuda.nvrtc.compileProgram(program, ("-arch=compute_90a",))
    ptx = cupy.cuda.nvrtc.getPTX(program)
    made, log = compiler.assemble(arch("sm_90"), newer(ptx.decode() if isinstance(ptx, bytes) else ptx), True)
    assert made, log
    module = cupy.cuda.function.Module()
    module.load(made)
    rng = np.random.default_rng(seed)
    w, a = rng.integers(-8, 8, (LINES, K)), rng.integers(-128, 128, (16, K))
    d = cupy.zeros((4, 32, 4), np.int32)
    inputs = [cupy.asarray(packed(w)), cupy.asarray(registers(a, a_cell.table))]
    module.get_function("product")((1,), (32,), (*inputs, d))
    wanted, raw = a @ w.T, d.get().reshape(4, -1)
    for tile in range(4):
        for slot, (row, col) in enumerate(d_cell.table.cells):
            assert raw[tile, slot] == wanted[row, 8 * tile + col]


@pytest.mark.gpu
def test_two_runs_with_that_compiler_write_the_same_bytes(tmp_path):
    folder, wanted = Path(ptxas().program).parent, "ldmatrix.m8n16.x?.shared.s8.s4"
    for name in ("first", "second"):
        asked = ["run", "--method", "live", "--cuda", str(folder), wanted, "--results", str(tmp_path / name)]
        subprocess.run([sys.executable, "-m", "tcprobe", *asked], check=True)
    first, second = (
        {p.relative_to(root): p.read_bytes() for p in root.rglob("*.json")}
        for root in (tmp_path / "first", tmp_path / "second")
    )
    assert first == second
    made = [m for m in Results(tmp_path / "first").measurements("sm_90", "live") if m.experiment.endswith(".s8.s4")]
    assert [(m.status, m.provenance["compiler"]) for m in made] == 3 * [("measured", ptxas().name)]
