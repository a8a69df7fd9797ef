"""The arithmetic and conversions that are emulated: which types and modifiers an instruction may have.

A line of `forms.csv` is a pattern of PTX names: words apart by dots, of which each stands for one of some alternatives,
with a question mark for one or none. Types stand in the order of the pattern, modifiers in any order, as ptxas takes
them. Operands are types: those of the name are d, the first, a, the last, and m, the one between; w is twice as wide
as d, n a number in the text.

>>> from tcprobe.emulate.forms import form_of
>>> form = form_of("mad.wide.u16")
>>> form.operand_types("mad.wide.u16")
('u32', 'u16', 'u16', 'u32')
>>> form_of("mad.wide.u64") is None, form_of("add.sat.ftz.f32") == form_of("add.rz.f32")
(True, True)
"""

import re
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import NamedTuple

from tcprobe import facts
from tcprobe.errors import RowError
from tcprobe.isa.arch import Target, read_target

WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
TYPES = {  # by name its bytes
    **{f"{kind}{bits}": bits // 8 for kind in "usb" for bits in (8, 16, 32, 64)},
    **{"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "tf32": 4, "pred": 1, "b128": 16},
    **{"f16x2": 4, "bf16x2": 4, "u16x2": 4, "s16x2": 4, "f32x2": 8},
    **{"e4m3x2": 2, "e5m2x2": 2, "e3m2x2": 2, "e2m3x2": 2, "e2m1x2": 1},
}


class Choice(NamedTuple):
    """A word of a pattern: one of `words`, or with `optional` none."""

    words: tuple[str, ...]
    optional: bool

    @property
    def is_type(self) -> bool:
        """Whether the words are types."""
        return self.words[0] in TYPES


class Pattern(NamedTuple):
    """What a cell says of names: one of some opcodes, then words."""

    opcodes: tuple[str, ...]
    choices: tuple[Choice, ...]


class FormRow(NamedTuple):
    """A line: names, types of operands, the least target and version of PTX if not all have it, where that stands."""

    form: Pattern
    operands: tuple[str, ...]
    target: Target | None
    source: str


def read_pattern(cell: str) -> Pattern:
    """The pattern of a cell; RowError."""
    opcodes, *words = (tuple(word.removesuffix("?").split("|")) for word in cell.split("."))
    optional = [word.endswith("?") for word in cell.split(".")]
    choices = tuple(map(Choice, words, optional[1:]))
    if (
        not choices
        or optional[0]
        or not all(re.fullmatch("[A-Za-z0-9]+", w) for some in (opcodes, *words) for w in some)
    ):
        raise RowError("expected words apart by dots, such as add|sub.rn|rz?.f32.")
    if any(
        len({word in TYPES for word in choice.words}) > 1 or (choice.is_type and choice.optional) for choice in choices
    ):
        raise RowError("a word is a type or a modifier, and a type is not optional.")
    return Pattern(opcodes, choices)


def read_operands(cell: str) -> tuple[str, ...]:
    """The types of operands; RowError."""
    found = tuple(cell.split())
    if not found or any(word not in TYPES and word not in ("d", "a", "m", "w", "n") for word in found):
        raise RowError("expected types, d, a, m, w or n, such as d a a.")
    return found


class Form:
    """A pattern of names of one or more opcodes."""

    def __init__(self, row: FormRow) -> None:
        self.row, self.operands = row, row.operands
        self.opcodes, self.choices = row.form

    @cached_property
    def types(self) -> tuple[frozenset[str], ...]:
        """The alternatives of each type."""
        return tuple(frozenset(c.words) for c in self.choices if c.is_type)

    @cached_property
    def modifiers(self) -> tuple[Choice, ...]:
        """The other words."""
        return tuple(c for c in self.choices if not c.is_type)

    def takes(self, words: tuple[str, ...]) -> bool:
        """Whether a name's words after the opcode are of this form."""
        types = [word for word in words if word in TYPES]
        if len(types) != len(self.types) or any(t not in some for t, some in zip(types, self.types, strict=True)):
            return False
        left = [word for word in words if word not in TYPES]
        for choice in self.modifiers:
            found = next((word for word in choice.words if word in left), None)
            if found:
                left.remove(found)
            elif not choice.optional:
                return False
        return not left

    def names(self) -> Iterator[str]:
        """Every name of this form."""
        for words in product(self.opcodes, *((("",) if c.optional else ()) + c.words for c in self.choices)):
            yield ".".join(filter(None, words))

    @lru_cache(4096)  # noqa: B019 (forms are there for good)
    def operand_types(self, name: str) -> tuple[str, ...]:
        """The types of a name's operands, the result first; `n` for a number in the text."""
        own = [word for word in name.split(".")[1:] if word in TYPES]
        letters = {"d": own[0], "a": own[-1], "m": own[len(own) // 2], "w": WIDE.get(own[0], "")}
        return tuple(letters.get(operand, operand) for operand in self.operands)


@cache
def rows() -> tuple[FormRow, ...]:
    """The lines of the table."""
    return facts.read(
        __file__, "forms.csv", FormRow, form=read_pattern, operands=read_operands, target=facts.optional(read_target)
    )


@cache
def forms() -> dict[str, tuple[Form, ...]]:
    """The forms of each opcode."""
    found: dict[str, tuple[Form, ...]] = {}
    for form in map(Form, rows()):
        for opcode in form.opcodes:
            found[opcode] = (*found.get(opcode, ()), form)
    return found


@lru_cache(4096)
def form_of(name: str, operands: int | None = None) -> Form | None:
    """The form of a name, with so many operands if that is said; None where no form has it."""
    opcode, *words = name.split(".")
    for form in forms().get(opcode, ()):
        if operands in (None, len(form.operands)) and form.takes(tuple(words)):
            return form
    return None
