"""PTX's text as statements: what each line does, which registers and variables it names. Hostile until read.

>>> from tcprobe.emulate.ptx import parse
>>> module = parse('''.version 8.0
... .target sm_80
... .address_size 64
... .visible .entry k(.param .u64 k_0) { .reg .pred p; .reg .b32 %r<3>;
...  mov.u32 %r1, %tid.x;
...  @!p add.s32 %r2, %r1, 7;
... ret; }''')
>>> [(s.line, s.name) for s in module.functions["k"].statements]
[(5, 'mov.u32'), (6, 'add.s32'), (7, 'ret')]
>>> module.target, module.functions["k"].parameters[0].size
('sm_80', 8)

Blocks in braces have registers and variables of their own; their names are made unique, and blocks vanish.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, NoReturn, TypeAlias

from tcprobe.errors import DataError, UsageError
from tcprobe.text import quoted

MOST_TEXT = 64 << 20  # bytes of a file
MOST_STATEMENTS = 1 << 20
MOST_DEPTH = 64  # of blocks in blocks
MOST_INITIAL = 1 << 24  # bytes of initial values
WIDTHS = {
    **{f"{kind}{bits}": bits // 8 for kind in "bsuf" for bits in (8, 16, 32, 64)},
    "b128": 16,
    "f32x2": 8,
    "u16x2": 4,
    "s16x2": 4,
    "f16x2": 4,
    "bf16": 2,
    "bf16x2": 4,
    "pred": 1,
}
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+)|(?P<line>\n)|(?P<text>"[^"\n]*")
    |(?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+U?)
    |(?P<word>[A-Za-z_$%.][\w$%.]*(?:::[\w$%.]+)*)
    |(?P<sign>[][{}()<>,;:|@!+=*-])|(?P<other>.)""",
    re.VERBOSE,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class Register(NamedTuple):
    """A register, by a name that no other of its function has, and its type, such as b32 or pred."""

    name: str
    type: str

    @property
    def bytes(self) -> int:
        """Of its width; 1 of a predicate."""
        return WIDTHS[self.type]


class Special(NamedTuple):
    """A register that the machine keeps: %tid.x."""

    name: str


class Immediate(NamedTuple):
    """A number in the text: a whole one, or a float as the bits of `type` (f32 or f64)."""

    value: int
    type: str = "s64"


class Variable(NamedTuple):
    """A variable or parameter; `size` in bytes, 0 where a launch says it."""

    name: str
    space: str
    size: int
    align: int
    initial: bytes = b""
    addresses: tuple[tuple[int, str, int], ...] = ()  # (offset, variable, added) of initial values that are addresses


class Named(NamedTuple):
    """A name that is no register: a variable, a label or a function."""

    name: str


class Vector(NamedTuple):
    """{a, b, ...}."""

    items: tuple[Operand, ...]


class Address(NamedTuple):
    """[base + offset], or [base + offset, more ...] of a tensor; `base` None for a number."""

    base: Register | Named | Special | None
    offset: int
    more: tuple[Operand, ...] = ()


class Negated(NamedTuple):
    """!p."""

    register: Register


class Both(NamedTuple):
    """p|q: two destinations; None for _."""

    first: Operand
    second: Operand


class Sink(NamedTuple):
    """_: a destination that nobody reads."""


Operand: TypeAlias = Register | Special | Immediate | Named | Vector | Address | Negated | Both | Sink


class Source(NamedTuple):
    """A line of the source; of an inlined function its own, and the lines of the calls, from the inside out."""

    file: str
    line: int
    calls: tuple[Source, ...] = ()

    @property
    def words(self) -> str:
        """FILE:LINE."""
        return ", inlined at ".join(f"{each.file}:{each.line}" for each in (self, *self.calls))


class Statement(NamedTuple):
    """One instruction: its line in the text, guard, name with all modifiers, operands, and the line of the source."""

    line: int
    guard: Register | Negated | None
    name: str
    operands: tuple[Operand, ...]
    source: Source | None = None

    @property
    def opcode(self) -> str:
        """The first word of the name."""
        return self.name.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The other words."""
        return tuple(self.name.split(".")[1:])

    def only(self, *known: str) -> None:
        """Refuse other modifiers than these."""
        if strange := next((word for word in self.modifiers if word not in known), None):
            raise self.refused(f"with .{strange}")

    def refused(self, why: str = "") -> UsageError:
        """That the emulator does not know it."""
        words = f"line {self.line}: {self.name[:120]} is not emulated"
        return UsageError(f"{words}{': ' + why if why else ''}.")


@dataclass
class Function:
    """A kernel or a function; `labels` by name the number of the statement that follows; `returned` what it gives."""

    name: str
    entry: bool
    parameters: list[Variable] = field(default_factory=list)
    returned: list[Variable] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of .branchtargets
    stated: dict[str, tuple[int, ...]] = field(default_factory=dict)  # .maxntid and its like
    line: int = 0
    defined: bool = False


@dataclass
class Module:
    """A file."""

    target: str = ""
    version: str = ""
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)

    def kernel(self, name: str | None) -> Function:
        """The kernel of that name, or the only one; UsageError if there is none."""
        kernels = {f.name: f for f in self.functions.values() if f.entry and f.defined}
        if name is None and len(kernels) == 1:
            return next(iter(kernels.values()))
        if name not in kernels:
            there = ", ".join(kernels) or "none"
            raise UsageError(f"no kernel {quoted(name or '')} in the text; there are: {there[:300]}.")
        return kernels[name]

    def reached(self, kernel: Function) -> Module:
        """The module with what a kernel reaches alone: the functions that it names, and the variables that these do."""
        functions, names, pending = {kernel.name: kernel}, set[str](), [kernel]
        while pending:
            for statement in pending.pop().statements:
                for name in _names_in(statement.operands):
                    other = self.functions.get(name)
                    if other and name not in functions:
                        functions[name] = other
                        pending.append(other)
                    names.add(name)
        more = list(names)
        while more:
            held = self.variables.get(more.pop())
            inside = {name for _, name, _ in held.addresses} - names if held else set()
            names |= inside
            more += inside
        variables = {name: variable for name, variable in self.variables.items() if name in names}
        return replace(self, functions=functions, variables=variables)


def _names_in(operands: Iterable[Operand | None]) -> Iterator[str]:
    """The names of variables, labels and functions in operands."""
    for operand in operands:
        if isinstance(operand, Named):
            yield operand.name
        elif isinstance(operand, Vector):
            yield from _names_in(operand.items)
        elif isinstance(operand, Address):
            yield from _names_in((operand.base, *operand.more))
        elif isinstance(operand, Both):
            yield from _names_in((operand.first, operand.second))


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def parse(text: str) -> Module:
    """The module; DataError with the line where the text is not PTX."""
    if len(text) > MOST_TEXT:
        raise DataError(f"the text has {len(text)} characters; at most {MOST_TEXT} are read.")
    return _Parser(text).module()


class _Scope(NamedTuple):
    number: int
    registers: dict[str, tuple[str, int]]  # by name or prefix its type, and how many there are (-1: one)
    variables: dict[str, str]


class _Location(NamedTuple):
    """What .loc says: the number of a .file, line, column."""

    file: int
    line: int
    column: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = next(self._tokens, _Token("end", "", 0))
        self._module = Module()
        self._scopes: list[_Scope] = []
        self._numbers = 0
        self._files: dict[int, str] = {}
        self._location: tuple[_Location, ...] = ()  # of a .loc, and where that is inlined
        self._inlined: dict[_Location, tuple[_Location, ...]] = {}  # what .loc said of a place last
        self._located: list[tuple[Function, int, tuple[_Location, ...]]] = []  # statements, by number
        self._branches: list[tuple[int, tuple[int, ...]]] = []  # statements, and the blocks that they stand in

    def module(self) -> Module:
        while self._next.kind != "end":
            self._top()
        if not self._module.target:
            raise DataError("the text names no .target; PTX begins with .version and .target.")
        for function, number, location in self._located:  # .file may stand behind the kernels
            statement = function.statements[number]
            function.statements[number] = statement._replace(source=self._source(location))
        return self._module

    def _fail(self, expected: str) -> NoReturn:
        raise DataError(f"line {self._next.line}: {quoted(self._next.text[:40])} where {expected} was expected.")

    def _take(self, text: str | None = None, kind: str | None = None) -> _Token:
        token = self._next
        if (text is not None and token.text != text) or (kind is not None and token.kind != kind):
            self._fail(quoted(text) if text else f"a {kind}")
        self._next = next(self._tokens, _Token("end", "", token.line))
        return token

    def _accept(self, text: str) -> bool:
        if self._next.text == text and self._next.kind != "text":
            self._take()
            return True
        return False

    def _whole(self) -> int:
        sign = -1 if self._accept("-") else 1
        return sign * int(self._take(kind="number").text.rstrip("U"), 0)

    def _top(self) -> None:
        word = self._next.text
        if word == ".version":
            self._take()
            self._module.version = self._take(kind="number").text
        elif word == ".target":
            self._take()
            self._module.target = self._take(kind="word").text
            while self._accept(","):
                self._take(kind="word")
        elif word == ".address_size":
            self._take()
            if self._whole() != 64:
                self._fail("64 bits of addresses")
        elif word == ".file":
            self._file()
        elif word == ".section":
            self._section()
        elif word == ".pragma":
            self._until(";")
        else:
            self._definition()

    def _file(self) -> None:
        self._take()
        number = self._whole()
        self._files[number] = self._take(kind="text").text.strip('"').rpartition("/")[2]
        while self._accept(","):
            self._take(kind="number")

    def _section(self) -> None:
        while self._next.text != "{" and self._next.kind != "end":
            self._take()
        depth = 0
        while self._next.kind != "end":
            token = self._take()
            depth += (token.text == "{") - (token.text == "}")
            if not depth:
                return

    def _until(self, end: str) -> None:
        while self._next.kind != "end" and self._next.text != end:
            self._take()
        self._accept(end)

    def _definition(self) -> None:
        linkage = []
        while self._next.text in (".visible", ".extern", ".weak", ".common"):
            linkage.append(self._take().text)
        word = self._next.text
        if word in (".entry", ".func"):
            self._function(entry=word == ".entry")
        elif word in (".global", ".const", ".shared"):
            for variable in self._variables():
                self._module.variables[variable.name] = variable
        elif word == ".alias":
            self._until(";")
        else:
            self._fail("a directive")

    def _function(self, entry: bool) -> None:
        line = self._take().line
        if self._next.text == ".attribute":
            self._until(")")
        self._scopes = [self._scope()]
        returned = self._parameters() if not entry and self._next.text == "(" else []
        name = self._take(kind="word").text
        function = Function(name, entry, returned=returned, line=line)
        if self._next.text == "(":
            function.parameters = self._parameters()
        while self._next.text not in ("{", ";") and self._next.kind == "word":
            directive = self._take().text
            numbers = []
            while self._next.kind == "number":
                numbers.append(self._whole())
                if not self._accept(","):
                    break
            if directive == ".pragma":
                self._until(";")
            function.stated[directive] = tuple(numbers)
        if self._accept(";"):
            self._module.functions.setdefault(name, function)
            return
        for parameter in (*function.parameters, *returned):
            function.variables[parameter.name] = parameter
        self._take("{")
        self._branches = []
        self._body(function)
        for number, scopes in self._branches:
            statement = function.statements[number]
            operands = tuple(_label(function, operand, scopes) for operand in statement.operands)
            function.statements[number] = statement._replace(operands=operands)
        function.defined = True
        self._module.functions[name] = function

    def _scope(self) -> _Scope:
        self._numbers += 1
        return _Scope(self._numbers, {}, {})

    def _parameters(self) -> list[Variable]:
        self._take("(")
        found: list[Variable] = []
        while not self._accept(")"):
            if self._next.text == ".reg":
                raise UsageError(f"line {self._next.line}: parameters in registers are not emulated.")
            found.append(self._variable())
            if not self._accept(","):
                self._take(")")
                break
        return found

    def _variables(self) -> Iterator[Variable]:
        first = self._variable()
        yield first
        while self._accept(","):
            yield first._replace(name=self._take(kind="word").text)
        self._take(";")

    def _variable(self) -> Variable:
        space, align, size, kind = self._take(kind="word").text[1:], 0, 0, ""
        while self._next.kind == "word" and self._next.text.startswith("."):
            word = self._take().text[1:]
            if word == "align":
                align = self._whole()
                if not 0 < align <= 1 << 12 or align & align - 1:
                    self._fail("an alignment")
            elif word in WIDTHS:
                kind, size = word, max(size, 1) * WIDTHS[word]
            elif word in ("v2", "v4"):
                size = int(word[1])
            elif word == "attribute":
                self._until(")")
            # .ptr, .global and its like say what a parameter's value points to
        if not kind:
            self._fail("a type")
        each, name = size, self._take(kind="word").text
        while self._accept("["):
            size = size * self._whole() if self._next.text != "]" else 0
            self._take("]")
        if not 0 <= size <= 1 << 40:
            raise DataError(f"line {self._next.line}: {quoted(name[:40])} has {size} bytes.")
        initial, addresses = self._initial(WIDTHS[kind]) if self._accept("=") else (b"", [])
        return Variable(name, space, size, align or min(each, 16), initial, tuple(addresses))

    def _initial(self, width: int) -> tuple[bytes, list[tuple[int, str, int]]]:
        """The bytes of a variable's initial value, and the addresses in it: where, of what, and a number beside."""
        made, addresses, depth = bytearray(), [], 0
        while True:
            if self._accept("{"):
                depth += 1
                if depth > MOST_DEPTH:
                    self._fail("fewer braces")
            elif self._accept("}"):
                depth -= 1
            elif self._accept(","):
                continue
            elif self._next.kind == "word":
                addresses.append((len(made), *self._initial_address()))
                made += bytes(width)
            else:
                number = self._immediate()
                made += (number.value & (1 << 8 * width) - 1).to_bytes(width, "little")
            if len(made) > MOST_INITIAL:
                self._fail("fewer initial values")
            if depth <= 0:
                return bytes(made), addresses

    def _initial_address(self) -> tuple[str, int]:
        """A variable's name, perhaps as generic(name), and what is added to its address."""
        name = self._take().text
        if name == "generic":
            self._take("(")
            name = self._take(kind="word").text
            self._take(")")
        return name, self._whole() if self._accept("+") else 0

    def _body(self, function: Function) -> None:
        self._location = ()
        depth = 1
        while depth:
            token = self._next
            if token.kind == "end":
                self._fail("the end of a function")
            if self._accept("{"):
                depth += 1
                if depth > MOST_DEPTH:
                    raise DataError(f"line {token.line}: more than {MOST_DEPTH} blocks in each other.")
                self._scopes.append(self._scope())
            elif self._accept("}"):
                depth -= 1
                self._scopes.pop()
            elif self._accept(";"):
                continue
            elif token.text.startswith("."):
                self._directive(function)
            else:
                self._statement(function)
            if len(function.statements) > MOST_STATEMENTS:
                raise DataError(f"line {token.line}: more than {MOST_STATEMENTS} instructions.")

    def _directive(self, function: Function) -> None:
        word = self._next.text
        if word == ".reg":
            self._registers()
        elif word == ".loc":
            self._loc()
        elif word in (".shared", ".local", ".param", ".const", ".global"):
            for variable in self._variables():
                unique = f"{variable.name}@{self._scopes[-1].number}"
                self._scopes[-1].variables[variable.name] = unique
                function.variables[unique] = variable._replace(name=unique)
        elif word == ".pragma":
            self._until(";")
        elif word == ".file":
            self._file()
        else:
            raise DataError(f"line {self._next.line}: the directive {word[:40]} is not read here.")

    def _loc(self) -> None:
        self._take()
        place, calls = self._place(), tuple[_Location, ...]()
        while self._accept(","):
            if self._take(kind="word").text == "inlined_at":
                call = self._place()
                calls = (call, *self._inlined.get(call, ()))[:MOST_DEPTH]
            else:
                self._take(kind="word")
                if self._accept("+"):
                    self._whole()
        self._inlined[place], self._location = calls, (place, *calls)

    def _place(self) -> _Location:
        return _Location(self._whole(), self._whole(), self._whole())

    def _source(self, location: tuple[_Location, ...]) -> Source | None:
        """The line that a .loc names; None where no .file has its number, or the line is 0, of no source."""
        lines: list[Source] = []
        for place in location:
            if place.file not in self._files or place.line < 1:
                break
            lines.append(Source(self._files[place.file], place.line))
        return lines[0]._replace(calls=tuple(lines[1:])) if lines else None

    def _registers(self) -> None:
        self._take()
        kind = self._take(kind="word").text[1:]
        if kind in ("v2", "v4"):
            self._fail("a type of registers, not vectors")
        if kind not in WIDTHS:
            self._fail("a type of registers")
        while True:
            name, count = self._take(kind="word").text, -1
            if self._accept("<"):
                count = self._whole()
                self._take(">")
            self._scopes[-1].registers[name] = (kind, count)
            if not self._accept(","):
                break
        self._take(";")

    def _statement(self, function: Function) -> None:
        guard: Register | Negated | None = None
        if self._accept("@"):
            negated = self._accept("!")
            register = self._operand()
            if not isinstance(register, Register) or register.type != "pred":
                self._fail("a predicate")
            guard = Negated(register) if negated else register
        name = self._take(kind="word")
        if self._next.text == ":" and guard is None:
            self._take()
            label = self._scopes[-1].variables.setdefault(name.text, f"{name.text}@{self._scopes[-1].number}")
            if self._next.text == ".branchtargets":
                self._take()
                function.targets[label] = tuple(self._names())
                return
            if self._next.text in (".callprototype", ".calltargets"):
                self._until(";")
                return
            function.labels[label] = len(function.statements)
            return
        operands = self._operands()
        if name.text.startswith(("bra", "brx")):
            self._branches.append((len(function.statements), tuple(scope.number for scope in self._scopes)))
        if self._location:
            self._located.append((function, len(function.statements), self._location))
        function.statements.append(Statement(name.line, guard, name.text, operands))

    def _names(self) -> list[str]:
        names = [self._take(kind="word").text]
        while self._accept(","):
            names.append(self._take(kind="word").text)
        self._take(";")
        return names

    def _operands(self) -> tuple[Operand, ...]:
        found: list[Operand] = []
        while not self._accept(";"):
            found.append(self._operand())
            if self._next.text != ";":
                self._take(",")
        return tuple(found)

    def _operand(self, depth: int = 0) -> Operand:
        if depth > 4:
            self._fail("fewer brackets")
        token = self._next
        if self._accept("{"):
            return Vector(tuple(self._list("}", depth)))
        if self._accept("("):
            return Vector(tuple(self._list(")", depth)))
        if self._accept("["):
            return self._address(depth)
        if self._accept("!"):
            return self._negated(depth)
        if token.kind == "number" or token.text == "-":
            return self._immediate()
        if token.kind != "word":
            self._fail("an operand")
        return self._word()

    def _negated(self, depth: int) -> Negated:
        register = self._operand(depth + 1)
        if not isinstance(register, Register):
            self._fail("a predicate")
        return Negated(register)

    def _word(self) -> Operand:
        """What a name stands for: alone, with a second predicate, or with a number added to its address."""
        first = self._named(self._take().text)
        if self._accept("|"):
            return Both(first, self._named(self._take(kind="word").text))
        if isinstance(first, Named) and self._next.text in ("+", "-"):  # a variable's address and a number
            return Address(first, self._added())
        return first

    def _added(self) -> int:
        total = 0
        while self._next.text in ("+", "-"):
            if self._accept("+"):
                total += self._whole()
            else:
                self._take()
                total -= self._whole()
        return total

    def _list(self, end: str, depth: int) -> Iterator[Operand]:
        while not self._accept(end):
            yield self._operand(depth + 1)
            if self._next.text != end:
                self._take(",")

    def _address(self, depth: int) -> Address:
        base: Register | Named | Special | None = None
        offset = 0
        if self._next.kind == "number":
            offset = self._immediate().value
        else:
            named = self._named(self._take(kind="word").text)
            if not isinstance(named, Register | Named | Special):
                self._fail("an address")
            base, offset = named, self._added()
        more: list[Operand] = []
        while self._accept(","):
            more.append(self._operand(depth + 1))
        self._take("]")
        return Address(base, offset, tuple(more))

    def _named(self, name: str) -> Operand:
        if name == "_":
            return Sink()
        for scope in reversed(self._scopes):
            if (kind := _declared(scope.registers, name)) is not None:
                return Register(f"{name}@{scope.number}", kind)
            if name in scope.variables:
                return Named(scope.variables[name])
        if name.startswith("%"):
            return Special(name)
        # a label further down is known by the block that it stands in
        return Named(name)

    def _immediate(self) -> Immediate:
        sign = -1 if self._accept("-") else 1
        text = self._take(kind="number").text
        if text[:2] in ("0f", "0F"):
            return Immediate(int(text[2:], 16) ^ (0 if sign > 0 else 1 << 31), "f32")
        if text[:2] in ("0d", "0D"):
            return Immediate(int(text[2:], 16) ^ (0 if sign > 0 else 1 << 63), "f64")
        if "." in text:
            return Immediate(int.from_bytes(struct.pack("<d", sign * float(text)), "little"), "f64")
        if len(text) > 24:
            self._fail("a number of 64 bits")
        digits = text.rstrip("U")
        octal = digits.isdigit() and len(digits) > 1 and digits[0] == "0"
        return Immediate(sign * int(digits, 8 if octal else 0))


def _label(function: Function, operand: Operand, scopes: tuple[int, ...]) -> Operand:
    """A label by the name that no other has: of the innermost block that has one of that name."""
    if isinstance(operand, Named) and operand.name not in function.labels:
        for number in reversed(scopes):
            if (unique := f"{operand.name}@{number}") in function.labels:
                return Named(unique)
    return operand


def _declared(registers: dict[str, tuple[str, int]], name: str) -> str | None:
    """The type of a register that is declared alone or by a prefix."""
    alone = registers.get(name)
    if alone and alone[1] < 0:
        return alone[0]
    digits = len(name) - len(name.rstrip("0123456789"))
    for split in range(len(name) - digits, len(name)):
        many = registers.get(name[:split])
        if many and many[1] >= 0 and int(name[split:]) < many[1] and (name[split] != "0" or split == len(name) - 1):
            return many[0]
    return None


def _tokens(text: str) -> Iterator[_Token]:
    """The tokens without comments and spaces; DataError at a character that PTX has not."""
    line = 1
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n") or " ", text)
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or "other"
        if kind == "line":
            line += 1
        elif kind == "other":
            raise DataError(f"line {line}: {quoted(found[0])} is no character of PTX.")
        elif kind != "space":
            yield _Token(kind, found[0], line)
