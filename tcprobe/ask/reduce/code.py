"""A reduction as CUDA: a template over the type of an element, for registers unpacked to one value an element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.ask.reduce.plan import Round, Scheme

OPS = {"max": "{0} > {1} ? {0} : {1}", "sum": "{0} + {1}"}


def source(plan: Scheme, op: str, elements: int, name: str) -> str:
    """The function `name`(x, out): out[g] is the result of the row of group g, in every lane that holds it."""
    lines = list(_body(plan, op))
    uses_lane = any("lane" in line for line in lines)
    lane = ["unsigned lane;", 'asm("mov.u32 %0, %%laneid;" : "=r"(lane));'] if uses_lane else []
    head = f"__device__ inline void {name}(const T (&x)[{elements}], T (&out)[{len(plan.groups)}]) {{"
    return "\n".join(["template <class T>", head, *(f"  {line}" for line in [*lane, *lines]), "}"])


def _body(plan: Scheme, op: str) -> Iterator[str]:
    values = []
    for part, group in enumerate(plan.groups):
        yield f"T p{part} = x[{group[0]}];"
        yield from (_joined(op, f"p{part}", f"p{part}", f"x[{i}]") for i in group[1:])
        values.append(f"p{part}")
    stages = [values]
    for number, one in enumerate(plan.rounds):
        lines, values = _round(one, op, values, f"r{number}_")
        yield from lines
        stages.append(values)
    for number, one in reversed(list(enumerate(plan.rounds))):
        lines, values = _back(one, values, len(stages[number]), f"b{number}_")
        yield from lines
    yield from (f"out[{part}] = {value};" for part, value in enumerate(values))


def _joined(op: str, to: str, left: str, right: str) -> str:
    return f"{to} = {OPS[op].format(left, right)};"


def _round(one: Round, op: str, values: Sequence[str], prefix: str) -> tuple[list[str], list[str]]:
    """Send what the partner keeps, join what comes with what is kept."""
    lines, kept = [], []
    upper = f"lane & {one.bit}"
    for number in range(one.words):
        low, high = (one.keep[0][number], one.keep[1][number]) if one.keep[0] else (number, number)
        sent = _either(upper, values[one.matches[high]], values[one.matches[low]])
        own = _either(upper, values[low], values[high])
        name = f"{prefix}{number}"
        lines.append(f"const T {name}t = __shfl_xor_sync(0xffffffffu, {sent}, {one.lane});")
        lines.append(f"const T {name}k = {own};")
        lines.append(_joined(op, f"const T {name}", f"{name}k", f"{name}t"))
        kept.append(name)
    return lines, kept


def _back(one: Round, values: Sequence[str], count: int, prefix: str) -> tuple[list[str], list[str]]:
    """The parts before a round, from the results that a lane and its partner have after it."""
    if not one.keep[0]:
        return [], list(values)
    lines = [
        f"const T {prefix}{n} = __shfl_xor_sync(0xffffffffu, {value}, {one.lane});" for n, value in enumerate(values)
    ]
    low = _places(one, one.keep, values, prefix)
    high = _places(one, one.keep[::-1], values, prefix)
    return lines, [_either(f"lane & {one.bit}", low[part], high[part]) for part in range(count)]


def _places(one: Round, keep: Sequence[Sequence[int]], values: Sequence[str], prefix: str) -> dict[int, str]:
    """By part of a lane that keeps keep[0]: its own result, or the one that its partner sends."""
    own = {part: values[n] for n, part in enumerate(keep[0])}
    return own | {one.matches.index(part): f"{prefix}{n}" for n, part in enumerate(keep[1])}


def _either(upper: str, low: str, high: str) -> str:
    return low if low == high else f"({upper} ? {high} : {low})"
