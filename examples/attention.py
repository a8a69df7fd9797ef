"""Attention in which every layout comes from tcprobe: O = softmax(Q K' / sqrt(head)) V, forward, bf16.

    python examples/attention.py sm_90 128                   # prints the CUDA source
    python examples/attention.py sm_80 64 --causal --run     # on a GPU, with CuPy and PyTorch: compares, times

Q, K, V, O are batch x heads x length x head, head 64 or 128, length a multiple of 128. Only the loop and its
barriers are written by hand. tcprobe prints the rest: `emit MULTIPLY --to cuda` the multiplies, `path` the paths of
Q, K, V into registers (sm_80), `descriptor` their tiles behind descriptors (sm_90), `reduce D --mask` and `reduce D
--op softmax` the mask and the softmax, `convert D A` P as A of the next multiply (registers renamed, no exchange),
and `reduce D --over row` which registers hold a row of O.
"""

from __future__ import annotations

import sys
from pathlib import Path
from string import Template
from typing import NamedTuple

from tcprobe.ask import descriptor
from tcprobe.ask.convert import convert
from tcprobe.ask.convert.header import header
from tcprobe.ask.path import PathOptions, PathPlan, path, request
from tcprobe.ask.path import cuda as path_code
from tcprobe.ask.reduce import reduce
from tcprobe.ask.reduce.mask import mask_fragment
from tcprobe.emit import emit
from tcprobe.isa.arch import arch
from tcprobe.isa.names import resolve
from tcprobe.kernel import staged
from tcprobe.kernel.mma_sync import swizzle
from tcprobe.store.cell import Cell, operands
from tcprobe.store.folders import layers

HERE = Path(__file__).parent
TYPE, SIZE = "bf16", 2  # of Q, K, V, O; bytes of an element
HEADS = (64, 128)
BLOCK = 128  # what lengths are multiples of
WIDTH = 128  # bytes of a row of a swizzle


class Attention(NamedTuple):
    """What is asked: the arch, the size of a head, whether a query sees only the keys up to its own."""

    arch: str
    head: int
    causal: bool = False

    @property
    def name(self) -> str:
        """Of the kernel."""
        return f"attention_{self.arch}_{self.head}{'_causal' if self.causal else ''}"


class Form(NamedTuple):
    """A tile: `warps` (or warpgroups that multiply) of `rows` queries each, `keys` at a time."""

    warps: int
    rows: int
    keys: int


FORMS = {
    ("sm_80", 64): Form(4, 32, 64),
    ("sm_80", 128): Form(4, 32, 64),
    ("sm_90", 64): Form(2, 64, 128),
    ("sm_90", 128): Form(2, 64, 128),
}


class Parts(NamedTuple):
    """What tcprobe prints for both kernels: of S = Q K' and O, and the text of all functions."""

    s: Cell
    o: Cell
    text: str


def cells(multiply: str, target: str) -> dict[str, Cell]:
    """The tables of a multiply's operands in registers."""
    return operands(resolve(multiply).instruction, target, layers(None, False))


def parts(asked: Attention, multiplies: tuple[str, str], rows: int) -> Parts:
    """The functions over S and O: multiplies, mask, softmax, P as A, a factor for each row of O, and its store."""
    scores, values = (cells(name, asked.arch) for name in multiplies)
    s, o, form = scores["d"], values["d"], FORMS[asked.arch, asked.head]
    several = [f"{rows}x{width}" if s.fragment.threads == 32 else None for width in (form.keys, asked.head)]
    step = reduce(s, "row", "softmax", "softmax", several[0])
    of_o = reduce(o, "row", "sum", size=several[1])
    by_row = f"float {of_o.tile.parameter}, const float (&by)[{len(of_o.plan.groups)}]"
    if step.plan.rows != of_o.plan.rows:
        raise ValueError("S and O have their rows in other lanes.")
    text = [
        emit("cuda", list({cell.fragment.id: cell for cell in (*scores.values(), *values.values())}.values())).replace(
            "#pragma once\n", ""
        ),
        mask_fragment(s, "col + col0 <= row + row0", "-inf").code,
        step.code,
        header([convert(s, values["a"])]),
        "// a factor for each row of O (tcprobe reduce D --over row: which elements are of which row)",
        f"__device__ inline void multiply_rows({by_row}) {{",
        *(f"  {of_o.tile.place(i)} *= by[{row}];" for row, group in enumerate(of_o.plan.groups) for i in group),
        "}",
        staged.store(o, TYPE, arch(asked.arch)),
    ]
    return Parts(s, o, "\n".join(text))


def source(asked: Attention) -> str:
    """The whole CUDA source."""
    return by_warps(asked) if asked.arch == "sm_80" else by_warpgroups(asked)


def multiply_of(cell: Cell) -> str:
    """The struct that `emit` prints for the multiply of a fragment."""
    return f"tcprobe::{cell.arch}::{cell.fragment.experiment.replace('.', '_')}"


def by_warps(asked: Attention) -> str:
    """The kernel of sm_80: cp.async, ldmatrix, mma."""
    form, multiply = FORMS["sm_80", asked.head], "mma.m16n8k16.row.col.f32.bf16.bf16.f32"
    made, both = parts(asked, (multiply, multiply), form.rows), cells(multiply, "sm_80")
    plans = {
        "q": way(both["a"], (form.rows, asked.head), "row"),
        "k": way(both["b"], (asked.head, form.keys), "col"),
        "v": way(both["b"], (form.keys, asked.head), "row"),
    }
    return Template((HERE / "attention_sm_80.cu").read_text()).substitute(
        text=made.text,
        name=asked.name,
        head=asked.head,
        warps=form.warps,
        rows=form.rows,
        keys=form.keys,
        causal=str(asked.causal).lower(),
        multiply=multiply_of(made.s),
        paths="\n".join(path_code.source(plan) for plan in plans.values()),
        **{name: path_code.name(plan) for name, plan in plans.items()},
        alignment=max(plan.alignment for plan in plans.values()),
    )


def way(cell: Cell, size: tuple[int, int], contiguous: str) -> PathPlan:
    """The path of a tile, without bank conflicts."""
    line = size[contiguous == "row"] * SIZE
    return path(request(cell, PathOptions(f"{size[0]}x{size[1]}", contiguous, swizzle(line))))


def tiles(asked: Attention) -> dict[str, descriptor.SharedTile]:
    """Q, K and V in shared memory on sm_90; V is B of the second multiply, whose k are keys: head is contiguous."""
    form = FORMS["sm_90", asked.head]
    return {
        "q": descriptor.tile((form.warps * form.rows, asked.head), TYPE, "k", WIDTH, (form.rows, 32)),
        "k": descriptor.tile((form.keys, asked.head), TYPE, "k", WIDTH, (form.keys, 32)),
        "v": descriptor.tile((asked.head, form.keys), TYPE, "mn", WIDTH, (asked.head, 32)),
    }


def by_warpgroups(asked: Attention) -> str:
    """The kernel of sm_90: tensor maps, a producer, wgmma."""
    form, held = FORMS["sm_90", asked.head], tiles(asked)
    multiplies = [f"wgmma.mma_async.m64n{n}k16.f32.bf16.bf16" for n in (form.keys, asked.head)]
    made = parts(asked, (multiplies[0], multiplies[1]), form.rows)
    bits = {f"bits_{name}": f"{tile.descriptor._replace(start=0).encode():#018x}ull" for name, tile in held.items()}
    both = zip(starts(held["q"]), starts(held["k"]), strict=True)
    scores = "\n".join(
        f"    Scores::mma(s[0], q + {at_q // 16}, k + {at_k // 16}, {int(step > 0)});"
        for step, (at_q, at_k) in enumerate(both)
    )
    values = "\n".join(
        f"    Values::mma<1, 1, 0, 1>(o, p[{step}], v + {at // 16});" for step, at in enumerate(starts(held["v"]))
    )
    return Template((HERE / "attention_sm_90.cu").read_text()).substitute(
        text=made.text,
        name=asked.name,
        head=asked.head,
        groups=form.warps,
        keys=form.keys,
        causal=str(asked.causal).lower(),
        scores=multiply_of(made.s),
        values=multiply_of(made.o),
        **bits,
        count_s=made.s.fragment.registers,
        count_o=made.o.fragment.registers,
        steps=form.keys // 16,
        q_bytes=held["q"].bytes,
        bytes=held["k"].bytes,
        per_group=held["q"].per_block or 0,
        scores_steps=scores,
        values_steps=values,
        alignment=held["q"].alignment,
        **{f"copy_{name}": copies(name, tile) for name, tile in held.items()},
    )


def starts(tile: descriptor.SharedTile) -> list[int]:
    """Where each k step of a multiply begins, from the descriptor's answer."""
    count = tile.k // 16
    each = tile.per_k if len(tile.per_k) != 1 else tile.per_k * (count - 1)
    return [sum(each[:step]) for step in range(count)]


def copies(name: str, tile: descriptor.SharedTile) -> str:
    """A tile by TMA, a box after the other, as the descriptor's answer has them."""
    box = descriptor.tma(tile)
    return " ".join(
        f"copy(to + {n * box['box_bytes']}, map_{name}, barrier, {n * box['box'][0]}, line);"
        for n in range(box["boxes"])
    )


def threads(asked: Attention) -> int:
    """Of a block; on sm_90 the producer's warpgroup too."""
    form = FORMS[asked.arch, asked.head]
    return 32 * form.warps if asked.arch == "sm_80" else 128 * (form.warps + 1)


def shared_bytes(asked: Attention) -> int:
    """Of dynamic shared memory: Q, K and V, on sm_90 two of them, and what it takes to begin where swizzles do."""
    form, stages = FORMS[asked.arch, asked.head], 1 if asked.arch == "sm_80" else 2
    return (form.warps * form.rows + 2 * stages * form.keys) * asked.head * SIZE + 2048


def main(arguments: list[str]) -> int:
    """Print the source, or run it."""
    known = {(one, str(head)): (one, head) for one, head in FORMS}
    chosen = known.get((*arguments[:2],))
    if not chosen or set(arguments[2:]) - {"--causal", "--run", "--small"}:
        print(__doc__)
        return 2
    asked = Attention(*chosen, "--causal" in arguments)
    if "--run" not in arguments:
        print(source(asked))
        return 0
    from attention_run import run

    return run(asked, "--small" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
