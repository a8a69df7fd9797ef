"""The question `order`: in which order a call sums on a GPU, and what an order that was saved gives for A and B."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import numpy as np

from tcprobe.arithmetic import order_text
from tcprobe.arithmetic.order import Order
from tcprobe.errors import UsageError, answer_or_none
from tcprobe.layout.arrays import Array
from tcprobe.order import picture
from tcprobe.order.bound import Bound, error_bound
from tcprobe.order.evaluate import multiply, rules_of
from tcprobe.order.picture import in_words, tree_lines
from tcprobe.question import terminal, words
from tcprobe.question.answers import UNSET, plain
from tcprobe.question.arguments import ArchName, Sizes, arch_name, checked, sizes
from tcprobe.question.declare import Option, PlainArgument, command
from tcprobe.question.options import Listed, Named, NonEmptyText, Number, Numbers, Output, Sides
from tcprobe.question.shared import JsonOption
from tcprobe.system import files
from tcprobe.system.npy import read_matrix, write_matrix
from tcprobe.text import Described

Lines = Sequence[int] | None
MATRIX = Named(dir_okay=False)


@dataclass(frozen=True, repr=False)
class OrderAnswer(Described):
    """An order that was read; D, where A and B were given, and the elements that differ from a D that was."""

    order: Order
    bound: Bound | None = None
    d: Array | None = None
    given: Array | None = None
    places: tuple[Lines, Lines] = (None, None)

    @cached_property
    def apart(self) -> Array | None:
        """Row and column in D of each element that differs, None without a D to compare; NaN is NaN."""
        if self.d is None or self.given is None:
            return None
        ours, theirs = self.stored, self.given
        same = ours.view(f"u{ours.itemsize}") == theirs.view(f"u{theirs.itemsize}")
        return np.argwhere(~(same | (np.isnan(ours) & np.isnan(theirs))))

    @property
    def stored(self) -> Array:
        """D as a file holds it: float32; float64 of f64, int32 of integers."""
        assert self.d is not None
        return self.d if self.d.dtype in (np.int32, np.float64) else self.d.astype(np.float32)

    @property
    def in_words(self) -> list[str]:
        """The order, the picture of it, and what came of A and B."""
        lines = [*in_words(self.order), *tree_lines(self.order), *self._unmeasured()]
        if self.bound is not None:
            lines.append(
                f"|D - exact| <= {self.bound.to_json()['bound']:.3g} x sum of |a x b|; a product is rounded at most "
                f"{self.bound.roundings} times"
            )
        if self.d is not None:
            lines.append(f"{self.d.size} elements of D")
        if self.apart is not None:
            lines.append(f"{len(self.apart)} differ from D")
            lines.extend(self._first_apart())
        return lines

    def _unmeasured(self) -> list[str]:
        """The forms whose arithmetic was not measured on the arch."""
        rules = answer_or_none(lambda: rules_of(self.order))
        if rules is None:
            return [f"the arithmetic of a form is not known on {self.order.arch}: it gives no D"]
        others = [form for form, rule in rules.items() if not rule.measured]
        return [f"not measured on {self.order.arch}, as others publish it: {', '.join(others)}"] if others else []

    def _first_apart(self) -> list[str]:
        if self.apart is None or not len(self.apart) or self.given is None:
            return []
        row, col = map(int, self.apart[0])
        at = [place if chosen is None else chosen[place] for place, chosen in zip((row, col), self.places, strict=True)]
        model, found = (side[row, col].item() for side in (self.stored, self.given))
        bits = f" ({model.hex()}, {found.hex()})" if isinstance(model, float) else ""
        return [f"the first: row {at[0]}, column {at[1]}: {model!r} by the order, {found!r} given{bits}"]

    @property
    def exit_code(self) -> int:
        """1 where an element differs."""
        return 1 if self.apart is not None and len(self.apart) else 0

    def json(self) -> str:
        """On one line."""
        from tcprobe.order.printed import SavedAnswer

        answer = SavedAnswer.of(
            self,
            order=None,  # as text: json.dumps does not follow sums nested 500 deep
            bound=UNSET if self.bound is None else self.bound.to_json(),
            elements=UNSET if self.d is None else int(self.d.size),
            different=UNSET if self.apart is None else len(self.apart),
        )
        texts = {key: json.dumps(value) for key, value in plain(answer).items()}
        texts["order"] = order_text.text(self.order).replace("\n", "")
        return "{" + ", ".join(f"{json.dumps(key)}: {text}" for key, text in texts.items()) + "}"


SIZES = words.Kind(words.pattern(r"[0-9]+(?:[.,0-9]*[0-9])?(?:x[0-9]+(?:[.,0-9]*[0-9])?){1,2}"))
TYPES = words.Kind(lambda text: (text,) if all(map(words.TYPE.read, text.split(","))) else None)


@checked
def order(
    call: Annotated[str | None, PlainArgument("[CALL]", among="")] = None,
    *,
    file: Annotated[Path | None, Option("--file", "A saved order; no GPU is needed.", reads=MATRIX)] = None,
    a: Annotated[
        Path | None, Option("--a", "A, m x k, as .npy: float32; int32 for integers, float64 for f64.", reads=MATRIX)
    ] = None,
    b: Annotated[Path | None, Option("--b", "B, k x n, likewise.", reads=MATRIX)] = None,
    d: Annotated[
        Path | None, Option("--d", "A D to compare, m x n; exit code 1 if an element differs.", reads=MATRIX)
    ] = None,
    row: Annotated[Lines, Option("--row", "Only this row of D, or a range: 3, 0-7.", reads=Numbers())] = None,
    col: Annotated[Lines, Option("--col", "Only this column of D, or a range.", reads=Numbers())] = None,
    bound: Annotated[bool, Option("--bound", "Print how far D can be from the exact product.")] = False,
    shape: Annotated[
        str | None,
        Option(
            "--shape",
            "Size of the product; one side may be a list or a range: 1..512x4096x4096.",
            "MxNxK",
            NonEmptyText(),
            word=SIZES,
        ),
    ] = None,
    kind: Annotated[
        str | None,
        Option(
            "--type",
            "Types of A, B and D, such as bf16, or e4m3,e4m3,f32.",
            "TYPE[,TYPE,TYPE]",
            NonEmptyText(),
            word=TYPES,
        ),
    ] = None,
    fast_accum: Annotated[
        bool, Option("--fast-accum", "For torch._scaled_mm: keep sums of fp8 in the tensor core.")
    ] = False,
    rows: Annotated[bool, Option("--rows", "Say whether the order depends on an element's place in D.")] = False,
    sum_: Annotated[
        bool, Option("--sum", "CALL sums the rows of a matrix (m x k), instead of multiplying two.")
    ] = False,
    majors: Annotated[
        str | None,
        Option("--majors", "What is contiguous in A and in B, such as row,col.", "ROW|COL,ROW|COL", NonEmptyText()),
    ] = None,
    on: Annotated[
        Literal["gpu", "cpu"] | None,
        Option("--on", "Where the arrays are that FILE.py gets. Default: on a GPU if there is one."),
    ] = None,
    arch: Annotated[
        ArchName | None, Option("--arch", "For kernel: compute capability.", "sm_XX", NonEmptyText())
    ] = None,
    tile: Annotated[
        Sizes | None, Option("--tile", "For kernel and triton: tile of a block.", reads=Sides(3, "MxNxK"))
    ] = None,
    stages: Annotated[int | None, Option("--stages", "For kernel: tiles in shared memory.", "N", Number(1))] = None,
    cluster: Annotated[int | None, Option("--cluster", "For kernel: blocks of a cluster.", "N", Number(1))] = None,
    launch: Annotated[
        Path | None,
        Option("--launch", "For FILE.ptx: its launch, as `tcprobe emulate` takes it.", "FILE", reads=MATRIX),
    ] = None,
    operands: Annotated[
        Lines,
        Option("--operands", "For FILE.ptx: which of its arguments are A, B and D.", "A,B,D", reads=Listed()),
    ] = None,
) -> Any:
    """Find the order in which CALL sums, by calling it on a GPU; without CALL, compute every bit of D by a saved order.

    CALL is cupy.matmul, torch.mm, torch._scaled_mm, triton, kernel (of `tcprobe kernel gemm`), torch.sum, cupy.sum,
    torch.softmax or FILE.py:FUNCTION, which runs here as you; or FILE.ptx, a kernel with its launch, which is emulated
    and needs no GPU. The order is proven on random operands; -o saves it. --file with --a and --b gives D, with --d
    also how many of its elements differ.
    \f
    Of a file the answer is an `OrderAnswer`, of a call a `RevealedAnswer`.
    """
    if (call is None) == (file is None):
        raise UsageError("give a CALL, or an order in `file`.")
    if file is None:
        unfit = {"a": a, "b": b, "d": d, "row": row, "col": col, "bound": bound or None}
        _refuse(unfit, "an order in `file`")
        from tcprobe.order.answer import reveal
        from tcprobe.order.calls import CallOptions, majors_of

        sides = majors_of(majors)
        block: Any = None if tile is None else sizes("tile", tile, 3)
        options = CallOptions(
            fast_accum=fast_accum,
            sums=sum_,
            a=sides[0],
            b=sides[1],
            on=on,
            arch=None if arch is None else str(arch_name(arch)),
            tile=block,
            stages=stages,
            cluster=cluster or 1,
            launch=None if launch is None else str(launch),
            operands=None if operands is None else tuple(operands),
        )
        return reveal(str(call), shape, kind, options, rows)
    _refuse(
        {
            **{
                "shape": shape,
                "kind": kind,
                "fast_accum": fast_accum or None,
                "rows": rows or None,
                "sum_": sum_ or None,
            },
            **{"majors": majors, "on": on, "arch": arch, "tile": tile, "stages": stages, "cluster": cluster},
            **{"launch": launch, "operands": operands},
        },
        "a CALL",
    )
    saved = order_text.load(file)
    found = error_bound(saved) if bound else None
    if a is None and b is None:
        _refuse({"d": d, "row": row, "col": col}, "`a` and `b`")
        return OrderAnswer(saved, found)
    if a is None or b is None:
        raise UsageError("give both `a` and `b`.")
    return evaluated(saved, found, (a, b, d), (row, col))


def _refuse(given: Mapping[str, object], needed: str) -> None:
    """UsageError for a parameter that means nothing here."""
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"`{name}` needs {needed}.")


def evaluated(
    saved: Order, bound: Bound | None, paths: tuple[Path, Path, Path | None], places: tuple[Lines, Lines]
) -> OrderAnswer:
    """D of the matrices in files, and the D to compare it with."""
    a, b = map(read_matrix, paths[:2])
    made = multiply(saved, a, b, *places)
    answer = OrderAnswer(saved, bound, made, None, places)
    if paths[2] is None:
        return answer
    given, shape = read_matrix(paths[2]), (a.shape[0], b.shape[1])
    if given.shape != shape or given.dtype != answer.stored.dtype:
        kinds = [
            f"{'x'.join(map(str, side))} of {kind}"
            for side, kind in ((given.shape, given.dtype), (shape, answer.stored.dtype))
        ]
        raise UsageError(f"`d` is {kinds[0]}; D is {kinds[1]}.")
    chosen = given[slice(None) if places[0] is None else list(places[0])]
    chosen = chosen[:, slice(None) if places[1] is None else list(places[1])]
    return OrderAnswer(saved, bound, made, np.ascontiguousarray(chosen), places)


@command(order, short="In which order a program sums.", json="tcprobe.order.printed:answers")
def print_order(
    answer: Any,
    *,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "With CALL: write the order, ORDER.json; with --a and --b: write D as .npy.",
            reads=Output(dir_okay=False),
            also="-o",
        ),
    ] = None,
    svg: Annotated[
        Path | None,
        Option("--svg", "Also write its picture to this file, as SVG.", reads=Output(dir_okay=False), also="--picture"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Words or JSON; the exit code says whether elements differ."""
    if svg and answer.order is not None:
        files.write(svg, picture.svg(answer.order).encode())
    if output and isinstance(answer, OrderAnswer):
        if answer.d is None:
            raise UsageError("`output` needs `a` and `b`, or a CALL.")
        write_matrix(output, answer.stored)
    elif output and answer.order is not None and answer.exit_code == 0:  # an order is kept where it is proven
        files.write(output, order_text.text(answer.order).encode())
    if as_json:
        click.echo(answer.json())
    else:
        terminal.lines(answer.in_words)
    if answer.order is None and len(answer.orders) > 1 and (output or svg):
        raise UsageError(f"`{'output' if output else 'svg'}` takes one order; several were found: name one size.")
    sys.exit(answer.exit_code)
