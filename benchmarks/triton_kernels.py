"""The kernels of Triton's tutorials, compiled without a GPU: python benchmarks/triton_kernels.py FOLDER [sm_80,sm_90]

Written after the tutorials on matrix multiplication, fused softmax, layer norm and fused attention, in their sizes.
What Triton makes of each is written below FOLDER as KERNEL_SIZES.sm_XX.cubin, and its PTX beside it. Needs a Triton
from 3.4 on in the Python that runs it, also one that `pip install --target` put into a folder on PYTHONPATH.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(  # noqa: PLR0913, PLR0917
    a,
    b,
    c,
    m,
    n,
    k,
    lda,
    ldb,
    ldc,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    group_rows: tl.constexpr,
):
    """C = A B, tiles in groups of rows that share columns in L2."""
    tiles_m, tiles_n = tl.cdiv(m, block_m), tl.cdiv(n, block_n)
    number = tl.program_id(0)
    group = number // (group_rows * tiles_n)
    rows = min(tiles_m - group * group_rows, group_rows)
    tile_m = group * group_rows + (number % (group_rows * tiles_n)) % rows
    tile_n = (number % (group_rows * tiles_n)) // rows
    row = (tile_m * block_m + tl.arange(0, block_m)) % m
    col = (tile_n * block_n + tl.arange(0, block_n)) % n
    inner = tl.arange(0, block_k)
    a_at = a + row[:, None] * lda + inner[None, :]
    b_at = b + inner[:, None] * ldb + col[None, :]
    total = tl.zeros((block_m, block_n), dtype=tl.float32)
    for done in range(0, k, block_k):
        left = tl.load(a_at, mask=inner[None, :] < k - done, other=0.0)
        right = tl.load(b_at, mask=inner[:, None] < k - done, other=0.0)
        total = tl.dot(left, right, total)
        a_at += block_k
        b_at += block_k * ldb
    row = tile_m * block_m + tl.arange(0, block_m)
    col = tile_n * block_n + tl.arange(0, block_n)
    inside = (row[:, None] < m) & (col[None, :] < n)
    tl.store(c + row[:, None] * ldc + col[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def softmax(  # noqa: PLR0913, PLR0917
    out, x, out_stride, x_stride, rows, cols, width: tl.constexpr
):
    """Softmax of each row."""
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        at = tl.arange(0, width)
        line = tl.load(x + row * x_stride + at, mask=at < cols, other=-float("inf"))
        top = tl.exp(line - tl.max(line, axis=0))
        tl.store(out + row * out_stride + at, top / tl.sum(top, axis=0), mask=at < cols)


@triton.jit
def layer_norm(  # noqa: PLR0913, PLR0917
    out, x, weight, bias, stride, cols, eps, block: tl.constexpr
):
    """Layer norm of each row, in two passes."""
    x += tl.program_id(0) * stride
    out += tl.program_id(0) * stride
    total = tl.zeros((block,), dtype=tl.float32)
    squares = tl.zeros((block,), dtype=tl.float32)
    for start in range(0, cols, block):
        at = start + tl.arange(0, block)
        line = tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32)
        total += line
        squares += line * line
    mean = tl.sum(total, axis=0) / cols
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / cols - mean * mean + eps)
    for start in range(0, cols, block):
        at = start + tl.arange(0, block)
        line = tl.load(x + at, mask=at < cols, other=0.0).to(tl.float32)
        gain = tl.load(weight + at, mask=at < cols)
        shift = tl.load(bias + at, mask=at < cols)
        tl.store(out + at, (line - mean) * scale * gain + shift, mask=at < cols)


@triton.jit
def attention(  # noqa: PLR0913, PLR0917
    q, k, v, out, scale, keys, block_m: tl.constexpr, block_n: tl.constexpr, d: tl.constexpr, causal: tl.constexpr
):
    """One head's attention, its softmax online."""
    row = tl.program_id(0) * block_m + tl.arange(0, block_m)
    head = tl.program_id(1) * keys * d
    dim = tl.arange(0, d)
    queries = tl.load(q + head + row[:, None] * d + dim[None, :])
    top = tl.full((block_m,), -float("inf"), dtype=tl.float32)
    weight = tl.zeros((block_m,), dtype=tl.float32)
    total = tl.zeros((block_m, d), dtype=tl.float32)
    last = tl.program_id(0) * block_m + block_m if causal else keys
    for start in range(0, last, block_n):
        col = start + tl.arange(0, block_n)
        key = tl.load(k + head + col[None, :] * d + dim[:, None])
        scores = tl.dot(queries, key) * scale
        if causal:
            scores = tl.where(row[:, None] >= col[None, :], scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        share = tl.math.exp2(scores - higher[:, None])
        fade = tl.math.exp2(top - higher)
        weight = weight * fade + tl.sum(share, 1)
        value = tl.load(v + head + col[:, None] * d + dim[None, :])
        total = tl.dot(share.to(tl.float16), value, total * fade[:, None])
        top = higher
    tl.store(out + head + row[:, None] * d + dim[None, :], (total / weight[:, None]).to(tl.float16))


class Build(NamedTuple):
    """A kernel with its types (those of pointers and numbers), sizes, warps and stages."""

    kernel: Any
    types: str
    sizes: dict[str, int]
    warps: int
    stages: int


MATMUL = "*{0} *{0} *fp16 i32 i32 i32 i32 i32 i32"
TILES = ((128, 256, 64, 8, 3), (128, 128, 32, 4, 4), (128, 32, 32, 4, 4), (64, 32, 32, 2, 5), (256, 64, 128, 4, 4))


def builds() -> Iterator[Build]:
    """The kernels in the sizes that the tutorials try."""
    for m, n, k, warps, stages in TILES:
        sizes = {"block_m": m, "block_n": n, "block_k": k, "group_rows": 8}
        yield Build(matmul, MATMUL.format("fp16"), sizes, warps, stages)
    yield Build(matmul, MATMUL.format("fp8e5"), {"block_m": 128, "block_n": 256, "block_k": 128, "group_rows": 8}, 8, 3)
    for m, n, d, causal, warps, stages in ((128, 64, 64, 1, 4, 3), (128, 64, 128, 0, 8, 3), (64, 32, 64, 0, 4, 4)):
        yield Build(
            attention,
            "*fp16 *fp16 *fp16 *fp16 fp32 i32",
            {"block_m": m, "block_n": n, "d": d, "causal": causal},
            warps,
            stages,
        )
    yield Build(softmax, "*fp32 *fp32 i32 i32 i32 i32", {"width": 1024}, 8, 4)
    yield Build(layer_norm, "*fp16 *fp16 *fp16 *fp16 i32 i32 fp32", {"block": 1024}, 4, 2)


def compiled(build: Build, number: int) -> Any:
    """What Triton makes of a kernel for compute capability `number` / 10; pointers and strides are multiples of 16."""
    names = build.kernel.arg_names
    plain = [name for name in names if name not in build.sizes]
    types = dict(zip(plain, build.types.split(), strict=True)) | dict.fromkeys(build.sizes, "constexpr")
    aligned = {(names.index(n),): [["tt.divisibility", 16]] for n in plain if types[n] != "fp32"}
    source = ASTSource(fn=build.kernel, signature={n: types[n] for n in names}, constexprs=build.sizes, attrs=aligned)
    options = {"num_warps": build.warps, "num_stages": build.stages}
    return triton.compile(source, target=GPUTarget("cuda", number, 32), options=options)


def main(folder: str, archs: str = "sm_80,sm_90,sm_100") -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for number in (int(name.removeprefix("sm_")) for name in archs.split(",")):
        for build in builds():
            sizes = "_".join(map(str, build.sizes.values()))
            kind = build.types.split()[0].strip("*")
            name = f"{build.kernel.fn.__name__}_{kind}_{sizes}.sm_{number}"
            try:
                made = compiled(build, number)
            except Exception as error:  # what Triton refuses is a line, not the end
                print(f"{name}: {type(error).__name__}: {str(error)[:100]!r}", flush=True)
                continue
            Path(folder, f"{name}.cubin").write_bytes(made.asm["cubin"])
            Path(folder, f"{name}.ptx").write_text(made.asm["ptx"])
    print(f"{folder}: {len(list(Path(folder).glob('*.cubin')))} cubins by Triton {triton.__version__}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
