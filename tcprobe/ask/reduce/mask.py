"""Filling and masking a fragment by row and col, as CUDA with few instructions.

Where an element's row and col are those of the lane's first element plus a number, a comparison of all of a lane's
elements needs one value of the lane, and each element one comparison with a number; what holds in all lanes or in none
is decided here, and equal comparisons are made once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from tcprobe.ask.reduce.condition import Comparison, Condition, Linear, condition, holds, linear, mention_order, names
from tcprobe.ask.reduce.number import literal, number
from tcprobe.ask.reduce.tile import require_elements
from tcprobe.code.cuda import DeviceFunction, Parameter, fragment_title, holder, origin
from tcprobe.code.names import FUNCTION, require_legal
from tcprobe.errors import UsageError
from tcprobe.fit import fitted
from tcprobe.layout.arrays import Ints
from tcprobe.layout.table import Table
from tcprobe.store.cell import Cell
from tcprobe.text import Described, escaped
from tcprobe.values import Json

SIGNS = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


@dataclass(frozen=True, repr=False)
class Masked(Described):
    """The CUDA `code` that masks or fills, and how many comparisons and selects it has a lane."""

    prints_code = True

    cell: Cell
    mask: str | None
    fill: str | None
    code: str
    costs: dict[str, int]

    @property
    def in_words(self) -> Iterator[str]:
        """What the code does, and the table that it was made from."""
        yield fragment_title(self.cell)
        yield from self.words()
        yield origin(self.cell)

    def words(self) -> Iterator[str]:
        """What becomes of an element, and what it costs."""
        if self.mask is not None:
            compare, select = self.costs["compare"], self.costs["select"]
            yield f"keeps where {escaped(self.mask)}; per lane: {compare} comparisons, {select} selects"
        else:
            yield f"x[i] becomes {escaped(self.fill or '')}"

    def to_json(self) -> Json:
        """Plain data."""
        return {
            "id": self.cell.fragment.id,
            "arch": self.cell.arch,
            "source": self.cell.source,
            "evidence": self.cell.evidence,
            "mask": self.mask,
            "fill": self.fill,
            "costs": self.costs,
            "code": self.code,
        }


def mask_fragment(cell: Cell, mask: str | None, fill: str | None, name: str = "mask") -> Masked:
    """Code for a fragment: where `mask` does not hold the value `fill`, an argument without one; `fill` alone: all.

    UsageError where the table is not a whole fragment's or has no closed form, and for what cannot be read.
    """
    if mask is None and fill is None:
        raise UsageError("give `over`, or `mask` and `fill`.")
    require_elements(cell, any(re.search(r"\bcol\b", text) for text in (mask, fill) if text))
    require_legal(name, FUNCTION, used="T")
    if None in cell.table.cells:
        raise UsageError(f"{cell.fragment.id} on {cell.arch} has unused slots.")
    maker, value = _Writer(cell.table), _value(fill, cell.fragment.type)
    kept_where = condition(mask) if mask is not None else None
    lines = maker.selects(kept_where, value) if kept_where else maker.fills(value)
    used = {*(names(kept_where) if kept_where else ()), *(names(value) if isinstance(value, Linear) else ())}
    parameters = _parameters(cell, mask, fill, mention_order(used, mask, fill))
    constant = (f"const T fill = T({value});",) if isinstance(value, str) else ()
    body = (*constant, *maker.before(), *lines)
    code = DeviceFunction(name, parameters, body, cell.fragment.threads, (origin(cell),))
    return Masked(cell, mask, fill, str(code), maker.costs)


Value = Linear | str | None  # what an element becomes: by row and col, C++ of a number, an argument


def _value(fill: str | None, kind: str) -> Value:
    if fill is None:
        return None
    constant = number(fill)
    return linear(fill) if constant is None else literal(constant, kind)


def _parameters(cell: Cell, mask: str | None, fill: str | None, named: list[str]) -> tuple[Parameter, ...]:
    """x, the fill without a value of its own, and the other names in the order in which they are used first."""
    elements = cell.table.elements
    kept = f", kept where {escaped(mask)}" if mask is not None else ""
    x = Parameter(f"T (&x)[{elements}]", f"the {elements} elements of a {holder(cell.fragment.threads)}{kept}")
    parameters = [x]
    if fill is None:
        parameters.append(Parameter("T fill", "what the others become"))
    where = " and ".join(option for option, text in (("--mask", mask), ("--fill", fill)) if text is not None)
    order = "; names are arguments in the order of their first use" if len(named) > 1 else ""
    parameters += [Parameter(f"int {name}", f"as in {where}{order}") for name in named]
    return tuple(parameters)


@dataclass
class _Writer:
    """Collects the lane's values and the comparisons that elements share."""

    table: Table
    costs: dict[str, int] = field(default_factory=lambda: {"compare": 0, "select": 0})
    _bases: dict[str, str] = field(default_factory=dict)
    _conditions: dict[str, str] = field(default_factory=dict)

    def before(self) -> list[str]:
        """The statements that come first."""
        values = [f"const int {name} = {text};" for text, name in self._bases.items()]
        return values + [f"const bool {name} = {text};" for text, name in self._conditions.items()]

    def fills(self, filling: Value) -> list[str]:
        """A line for each element."""
        return [f"x[{i}] = {self._other(filling, i)};" for i in range(self.table.elements)]

    def selects(self, condition: Condition, filling: Value) -> list[str]:
        """A line for each element that is not always kept."""
        lines = []
        for i in range(self.table.elements):
            kept = self._truth(condition, i)
            other = self._other(filling, i)
            if kept == "false":
                lines.append(f"x[{i}] = {other};")
            elif kept != "true":
                self.costs["select"] += 1
                lines.append(f"x[{i}] = {self._condition_name(kept)} ? x[{i}] : {other};")
        return lines

    def _other(self, filling: Value, i: int) -> str:
        """What an element becomes, as C."""
        if not isinstance(filling, Linear):
            return "fill"
        base, constant = self._split(filling, i)
        moved = f" {'-' if constant < 0 else '+'} {abs(constant)}" if constant and base else ""
        return f"T({base + moved or constant})"

    def _truth(self, condition: Condition, i: int) -> str:
        """A condition for element i in C; true or false where it is the same in all lanes."""
        if not names(condition):
            truths = {holds(condition, self._at(lane, i)) for lane in range(self.table.threads)}
            if len(truths) == 1:
                return str(truths.pop()).lower()
        if isinstance(condition, Comparison):
            base, constant = self._split(condition.side, i)
            return f"{base} {condition.sign} {-constant}"
        parts = [self._truth(part, i) for part in condition.parts]
        if condition.sign == "!":
            return {"true": "false", "false": "true"}.get(parts[0], f"!({parts[0]})")
        ends, passes = ("false", "true") if condition.sign == "&&" else ("true", "false")
        open_ = [part for part in dict.fromkeys(parts) if part != passes]
        if ends in open_:
            return ends
        return (
            passes if not open_ else f" {condition.sign} ".join(open_ if len(open_) == 1 else [f"({p})" for p in open_])
        )

    def _condition_name(self, text: str) -> str:
        if text not in self._conditions:
            self._conditions[text] = f"c{len(self._conditions)}"
            self.costs["compare"] += 1 + text.count("&&") + text.count("||")
        return self._conditions[text]

    def _split(self, linear: Linear, i: int) -> tuple[str, int]:
        """(name of the lane's value, what element i adds to it): a value of its own where the two do not part."""
        moves = self._numbers(linear, i) - self._numbers(linear, 0)
        moved = int(moves[0]) if (moves == moves[0]).all() else None
        representative = 0 if moved is not None else i
        text = self._text(Linear(linear.terms, 0), representative)
        total = linear.number + (moved or 0)
        if text.lstrip("-").isdigit():
            return "", total + int(text)
        return self._bases.setdefault(text, f"d{len(self._bases)}"), total

    def _numbers(self, linear: Linear, i: int) -> Ints:
        """What it is for element i of every lane; names other than row and col count as 0."""
        columns = {name: np.array(self.table.values[name][i :: self.table.elements]) for name in ("row", "col")}
        zero: Ints = np.zeros(self.table.threads, int)
        return sum((columns[name] * factor for name, factor in linear.terms if name in columns), zero)

    def _at(self, lane: int, i: int) -> dict[str, int]:
        cell = self.table.cells[lane * self.table.elements + i]
        assert cell is not None
        return {"row": cell[0], "col": cell[1]}

    def _text(self, linear: Linear, i: int) -> str:
        """The value of element i of a lane in C."""
        constant, parts = 0, []
        for name, factor in sorted(linear.terms, key=lambda term: -term[1]):
            text = self._index(name, i) if name in ("row", "col") else name
            if text.isdigit():
                constant += factor * int(text)
            else:
                parts.append(f"{'-' if factor < 0 else '+'} " + (f"{abs(factor)} * " if abs(factor) > 1 else "") + text)
        joined = " ".join(parts).removeprefix("+ ")
        joined = f"-{joined[2:]}" if joined.startswith("- ") else joined
        return f"{joined} + {constant}" if joined and constant else joined or str(constant)

    def _index(self, name: str, i: int) -> str:
        """The row or col of element i as a formula in the lane."""
        column = self.table.values[name][i :: self.table.elements]
        if len(set(column)) == 1:
            return str(column[0])
        formula = fitted(self.table).formulas[name]
        if formula is None:
            raise UsageError("no closed form of row and col, so no code can be made.")
        terms = tuple(term for term in formula.terms if getattr(term, "variable", "lane") == "lane")
        if not formula.linear:
            raise UsageError("row and col are not linear in lane and i, so no code can be made.")
        rest = replace(formula, terms=tuple(term for term in formula.terms if term not in terms))
        moved = rest(lane=0, i=i)
        of_lane = f"({replace(formula, terms=terms, constant=0)})"
        return f"({of_lane} {'^' if formula.overlapping else '+'} {moved})" if moved else of_lane
