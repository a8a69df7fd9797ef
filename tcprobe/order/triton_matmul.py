"""A matmul in Triton, as its tutorial has them: a block of D a program, k in steps of a block, sums in f32.

Imported only where `tcprobe order triton` is asked for; Triton reads this file's text.
"""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = (64, 64, 64)  # rows, columns, products of a step


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _matmul(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    a,
    b,
    d,
    m,
    n,
    k,
    a_row,
    a_col,
    b_row,
    b_col,
    d_row,
    d_col,
    ROWS: tl.constexpr,  # noqa: N803
    COLS: tl.constexpr,  # noqa: N803
    DEPTH: tl.constexpr,  # noqa: N803
    TF32: tl.constexpr,  # noqa: N803
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    along = tl.arange(0, DEPTH)
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for at in range(0, k, DEPTH):
        of = at + along
        left = tl.load(
            a + rows[:, None] * a_row + of[None, :] * a_col, mask=(rows[:, None] < m) & (of[None, :] < k), other=0.0
        )
        right = tl.load(
            b + of[:, None] * b_row + cols[None, :] * b_col, mask=(of[:, None] < k) & (cols[None, :] < n), other=0.0
        )
        total = tl.dot(left, right, total, input_precision=TF32)
    place = d + rows[:, None] * d_row + cols[None, :] * d_col
    tl.store(place, total.to(d.dtype.element_ty), mask=(rows[:, None] < m) & (cols[None, :] < n))


def matmul(a: Any, b: Any, out: Any, tf32: bool, block: tuple[int, int, int] = BLOCK) -> Any:
    """D of A and B in the type `out`; f32 is multiplied as tf32, or as such."""
    (m, k), n = a.shape, b.shape[1]
    d = torch.empty((m, n), dtype=out, device=a.device)
    grid = (triton.cdiv(m, block[0]), triton.cdiv(n, block[1]))
    _matmul[grid](
        a, b, d, m, n, k, *a.stride(), *b.stride(), *d.stride(), *block, "tf32" if tf32 else "ieee"
    )  # fmt: skip
    return d
