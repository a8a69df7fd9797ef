"""What a call was found to do, as an answer: words, JSON, the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tcprobe.arithmetic import order_text
from tcprobe.arithmetic.order import Order
from tcprobe.errors import UsageError
from tcprobe.order.batches import sizes_of
from tcprobe.order.calls import CallOptions
from tcprobe.order.child import asked
from tcprobe.order.picture import in_words, tree_lines
from tcprobe.order.terms import together
from tcprobe.text import Described, escaped
from tcprobe.values import Json

Ranges: TypeAlias = Sequence[Sequence[int]]  # half open
SHOWN = 70  # letters of a kernel's name


@dataclass(frozen=True, repr=False)
class RevealedAnswer(Described):
    """`spans`: of sizes with one order each, what was found, as plain data; of one shape there is one."""

    call: str
    side: str
    spans: tuple[Json, ...]
    changes: bool | None
    orders: tuple[Order | None, ...]
    rows: bool = False

    @property
    def order(self) -> Order | None:
        """The order, None of several, and where D lacks products or has some twice."""
        return self.orders[0] if len(self.orders) == 1 else None

    @property
    def lost(self) -> list[list[int]]:
        """Products that some element of D lacks, as half-open ranges of k."""
        return together(span["lost"] for span in self.spans)

    @property
    def double(self) -> list[list[int]]:
        """Products that some element of D has twice or more, as half-open ranges of k."""
        return together(span["double"] for span in self.spans)

    @property
    def in_words(self) -> list[str]:
        """The order, kernel and proof; of several sizes a line for each span."""
        if len(self.spans) > 1 or len(self.spans[0]["sizes"]) > 1:
            return list(self._of_sizes())
        order, span = self.orders[0], self.spans[0]
        if order is None:
            return [f"{self.call}: {_kernel(span)}", *_lacking(span), "there is no order: -o saves none"]
        lines = [f"{self.call}: {_kernel(span)}", *in_words(order), *tree_lines(order)]
        if len(span["alike"]) > 1:
            lines.append(f"the same bits from: {', '.join(span['alike'])}")
        lines += [*_found(order), *_proof(span), *(_places(span) if self.rows or span["places"]["different"] else ())]
        if self.exit_code:
            lines.append("the order is not proven: -o does not save it")
        return lines

    def _of_sizes(self) -> Iterator[str]:
        """A line for each span, and whether a row's bits change."""
        for span, order in zip(self.spans, self.orders, strict=True):
            words = "; ".join(list(in_words(order))[1:3]) if order else "there is no order"
            yield f"{self.side} {_sizes(span['sizes'])}: {words} ({_kernel(span)})"
            yield from (f"  {line}" for line in (_proof(span) if order else _lacking(span)))
        if self.changes is None:
            yield "with another k a sum has other products: its bits are not compared"
        else:
            kept = "change between these ranges" if self.changes else "are the same in all of them"
            line = "row 0's" if self.side == "m" else "row 0's first columns'"
            yield f"{line} bits {kept}"

    @property
    def exit_code(self) -> int:
        """1 where an element differs from the model, lacks a product or has one twice."""
        return int(any(span["different"] or span["order"] is None for span in self.spans))

    def json(self) -> str:
        """On one line; of one shape without `spans`."""
        if len(self.spans) == 1 and len(self.spans[0]["sizes"]) == 1:
            return json.dumps({"call": self.call, **self.spans[0]})
        return json.dumps({"call": self.call, "side": self.side, "changes": self.changes, "spans": list(self.spans)})


def _kernel(span: Json) -> str:
    """The kernels' names."""
    if not span["kernel"]:
        return "kernel's name not known"
    names = [escaped(name) for name in span["kernel"]]
    return ", ".join(name if len(name) <= SHOWN else f"{name[:SHOWN]}..." for name in names)


def _sizes(sizes: Sequence[int]) -> str:
    """Ranges of sizes: 1..16, 18."""
    made: list[list[int]] = []
    for size in sizes:
        if made and size == made[-1][-1] + 1:
            made[-1][1:] = [size]
        else:
            made.append([size])
    return ", ".join("..".join(map(str, part)) for part in made)


def _found(order: Order) -> Iterator[str]:
    """What is done to subnormal numbers, where that could be seen."""
    flushed = [name for name, word in order.more.get("subnormals", {}).items() if word == "flushed"]
    if flushed:
        which = {"inputs": "subnormal numbers of A and B", "d": "subnormal sums"}
        yield f"{' and '.join(which[name] for name in flushed)} become zero; D of the order keeps them"


def _proof(span: Json) -> Iterator[str]:
    """How many elements were compared, and the first that differs."""
    if not span["elements"]:
        yield "random triples of terms meet as the order says; no D was compared, since terms are not known to the bit"
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in span["compared"].items())
    again = f", also with {_sizes(span['proven'])}" if span["proven"] else ""
    yield f"{span['elements']} elements compared ({kinds}{again}): {span['different']} differ"
    first = span["difference"]
    if first:
        where = f"{first['kind']} operands, row {first['row']}, column {first['col']}"
        yield f"the first: {where}: {first['called']!r} by the call, {first['computed']!r} by the order"
        yield from (f"  {line}" for line in first["steps"])


def _lacking(span: Json) -> Iterator[str]:
    """Which products D lacks or has twice, where, and a pair of operands that shows it."""
    total = span["places"]["elements"]
    for part in span["terms"]:
        where = ""
        if part["elements"] < total:
            (first, last), (left, right) = part["rows"], part["cols"]
            where = f"in {part['elements']} of {total} elements, in rows {first}..{last} and columns {left}..{right}, "
        if part["lost"]:
            yield f"{where}k {_ranges(part['lost'])} {_are(part['lost'])} in no sum: D lacks {_them(part['lost'])}"
        if part["double"]:
            yield (
                f"{where}k {_ranges(part['double'])} {_are(part['double'])} in two sums or more: D has "
                f"{_them(part['double'])} more than once"
            )
        shown = part["shown"]
        of_b = "" if shown["b"] is None else f" = B[{shown['k']}][{shown['col']}]"
        yield (
            f"A[{shown['row']}][{shown['k']}]{of_b} = {shown['a']:g}, with zeros elsewhere, gives "
            f"D[{shown['row']}][{shown['col']}] = {shown['d']:g}: {shown['right']:g} is right"
        )
    if span["others"]:
        yield f"{span['others']} elements more are no sums of their products; which of them they lack is not known"


def _ranges(ranges: Ranges) -> str:
    """Half-open ranges: 3, 8..15."""
    return ", ".join(str(start) if stop == start + 1 else f"{start}..{stop - 1}" for start, stop in ranges)


def _are(ranges: Ranges) -> str:
    return "are" if _several(ranges) else "is"


def _them(ranges: Ranges) -> str:
    return "them" if _several(ranges) else "it"


def _several(ranges: Ranges) -> bool:
    return len(ranges) > 1 or ranges[0][1] - ranges[0][0] > 1


def _places(span: Json) -> Iterator[str]:
    """Whether the order depends on the place in D."""
    places = span["places"]
    if not places["different"]:
        yield f"the same operands give the same bits in all of D's {places['elements']} places"
        return
    (first, last), (left, right) = places["rows"], places["cols"]
    yield (
        f"the order depends on the place: {places['different']} of {places['elements']} elements, in rows "
        f"{first}..{last} and columns {left}..{right}, have other bits than the first ones with the same operands; the "
        f"order is that of {_lines(places['alike'][0], 'row')} and {_lines(places['alike'][1], 'column')}"
    )


def _lines(alike: Sequence[int], name: str) -> str:
    """Rows or columns in equal steps."""
    step, count = alike
    each = f" in steps of {step}" if step > 1 else ""
    return f"{count} {name}{'s' if count > 1 else ''}{each} from the first on"


def reveal(
    call: str, shape: str | None, kind: str | None, options: CallOptions | None = None, rows: bool = False
) -> RevealedAnswer:
    """The order of a call, found in a process of its own; UsageError without `shape` and `type`."""
    if not shape or not kind:
        raise UsageError("a CALL needs `shape` and `type`, such as 8x4096x4096 and bf16.")
    types = [part.strip() for part in kind.split(",")]
    asked_options = options or CallOptions()
    sizes_of(shape, asked_options.sums or call.endswith(".sum"))
    request = {"call": call, "shape": shape, "types": types, "options": asked_options._asdict()}
    found = asked(request)
    orders = tuple(span["order"] and order_text.from_json(span["order"]) for span in found["spans"])
    return RevealedAnswer(call, found["side"], tuple(found["spans"]), found["changes"], orders, rows)
