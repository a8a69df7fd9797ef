r"""CUDA device functions as text, and what comments say of the tables behind them.

A DeviceFunction has its parameters with what each is, and the thread that runs it:

>>> from tcprobe.code.cuda import DeviceFunction, Parameter
>>> print(DeviceFunction("half", (Parameter("T (&x)[2]", "a lane's elements"),), ("x[1] = T(lane);",), 128))
template <class T>
__device__ inline void half(T (&x)[2], unsigned thread = threadIdx.x % 128) {
  // x: a lane's elements
  // thread: its number in the warpgroup; the default is for blocks of one dimension
  x[1] = T(thread);
}

Comments above code say which tables it was made from: those were measured, the code was not.

A multiply as a CUDA device function: D += A B over the registers of its fragments.

>>> from tcprobe.code.cuda import multiply_function
>>> from tcprobe.isa.names import resolve
>>> print(multiply_function(resolve("mma.m16n8k8.row.col.f32.f16.f16.f32").instruction))
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[2], const unsigned (&b)[1]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

An instruction as a CUDA function: the asm with its constraints, the immediates as template arguments, the guard.

>>> from tcprobe.code.cuda import instruction_functions
>>> from tcprobe.isa.names import resolve
>>> print("\n".join(instruction_functions(resolve("movmatrix.m8n8.trans.b16").instruction)))
__device__ __forceinline__ static void movmatrix(unsigned (&d)[1], const unsigned (&a)[1]) {
  asm volatile(
      "movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
      : "=r"(d[0]) : "r"(a[0]));
}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from tcprobe.isa.arch import ARCHS, RENAMED, WARP, WARPGROUP, covers
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import MULTIPLIED, Role
from tcprobe.text import comment

if TYPE_CHECKING:
    from tcprobe.store.cell import Cell


LANE = ("unsigned lane;", 'asm("mov.u32 %0, %%laneid;" : "=r"(lane));')
_VARIABLE = re.compile(r"\blane\b")


def holder(threads: int) -> str:
    """What the number of one of so many threads is called: lane in a warp, thread in a warpgroup."""
    return "lane" if threads == WARP else "thread"


def among(threads: int) -> str:
    """Whose threads so many are, of which each has a number: those of a warpgroup, or else of a CTA's tile."""
    return "warpgroup" if threads == WARPGROUP else "CTA"


def of_holder(text: str, threads: int) -> str:
    """Code or a formula in `lane`, in what the number of the thread is called."""
    return _VARIABLE.sub(holder(threads), text)


def once(lines: Sequence[str]) -> list[str]:
    """Lines that count once, however many headers have the very same but for comments.

    What has the same name and says something else is an error of the compiler, not left out.
    """
    code = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
    guard = f"TCPROBE_{sha256(code.encode()).hexdigest()[:12]}"
    return [f"#ifndef {guard}", f"#define {guard}", *lines, "#endif"]


class Parameter(NamedTuple):
    """`declared` as in the head of the function, the comment `what` it is."""

    declared: str
    what: str

    @property
    def name(self) -> str:
        """Of the variable."""
        names: list[str] = re.findall(r"\w+", self.declared.partition("[")[0].partition("=")[0])
        return names[-1]


class DeviceFunction(NamedTuple):
    """A template over the type T of an element, for `threads` that hold a fragment; `body` counts them as `lane`."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[str, ...]
    threads: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = ["template <class T>", self._head(), *(f"  {line}" for line in self._lines()), "}"]
        return "\n".join(lines)

    def _head(self) -> str:
        declared = ", ".join(parameter.declared for parameter in self._all_parameters())
        return f"__device__ inline void {self.name}({declared}) {{"

    def _lines(self) -> Iterator[str]:
        yield from (comment(f"// {note}") for note in self.notes)
        yield from (comment(f"// {parameter.name}: {parameter.what}") for parameter in self._all_parameters())
        yield from LANE if self._counts and self.threads == WARP else ()
        yield from (of_holder(line, self.threads) for line in self.body)

    def _all_parameters(self) -> tuple[Parameter, ...]:
        own = Parameter(
            f"unsigned thread = threadIdx.x % {self.threads}",
            f"its number in the {among(self.threads)}; the default is for blocks of one dimension",
        )
        return (*self.parameters, own) if self._counts and self.threads != WARP else self.parameters

    @property
    def _counts(self) -> bool:
        """Whether the body needs the thread's number."""
        return any(_VARIABLE.search(line) for line in self.body)


def fragment_title(cell: Cell) -> str:
    """Which fragment code is for."""
    fragment = cell.fragment
    return f"{fragment.id} on {cell.arch}, {fragment.rows} x {fragment.cols} of {fragment.type}"


def origin(cell: Cell) -> str:
    """Which table code was made from, and what that rests on."""
    (words,) = origins([cell])
    return words


def origins(cells: Iterable[Cell]) -> list[str]:
    """The same of several tables, in one line those that rest on the same."""
    alike: dict[tuple[str, str], dict[str, None]] = {}
    for cell in cells:
        alike.setdefault((cell.arch, _method(cell.evidence)), {})[cell.fragment.id] = None
    return [
        f"from the table{'s' if len(ids) > 1 else ''} of {' and '.join(ids)} on {arch}, {method}"
        for (arch, method), ids in alike.items()
    ]


def origin_of_tables(evidence: str) -> str:
    """Evidence of several tables, which it names."""
    return _method(evidence.replace("measured: ", "table measured: "))


def _method(evidence: str) -> str:
    return re.sub(r"measured: (live )?", lambda match: f"measured {match[1] or 'by '}", evidence)


ACCUMULATORS = {"f32": ("float", "f"), "s32": ("int", "r")}


def register_and_letter(fragment: Fragment) -> tuple[str, str]:
    """The C type of a register, and its letter in inline PTX."""
    return ACCUMULATORS.get(fragment.type, ("unsigned", "r"))


def multiply_function(instruction: Instruction) -> str:
    """`multiply`(d, a, b) of a multiply of registers."""
    a, b, d = (instruction.fragment(name) for name in MULTIPLIED)
    kind, letter = register_and_letter(d)
    registers = [
        registers_in_braces(0, d.registers),
        registers_in_braces(d.registers, a.registers),
        registers_in_braces(d.registers + a.registers, b.registers),
    ]
    outputs = ", ".join(f'"+{letter}"(d[{j}])' for j in range(d.registers))
    inputs = ", ".join(
        f'"r"({name}[{j}])' for name, fragment in (("a", a), ("b", b)) for j in range(fragment.registers)
    )
    return "\n".join(
        (
            f"__device__ inline void multiply({kind} (&d)[{d.registers}], const unsigned (&a)[{a.registers}], "
            f"const unsigned (&b)[{b.registers}]) {{",
            f'  asm volatile("{instruction.name} {", ".join(registers)}, {registers[0]};"',
            f"               : {outputs}",
            f"               : {inputs});",
            "}",
        )
    )


def multiply_described(instruction: Instruction, turned: tuple[bool, bool]) -> str:
    """`multiply`(d, a, b, more) of a wgmma with both factors behind descriptors; without `more` D is overwritten.

    `turned` says of A and B whether m or n is contiguous.
    """
    d = instruction.fragment("d")
    kind, letter = register_and_letter(d)
    count = d.registers
    outputs = ", ".join(f'"+{letter}"(d[{j}])' for j in range(count))
    return "\n".join(
        (
            f"__device__ inline void multiply({kind} (&d)[{count}], unsigned long long a, unsigned long long b, "
            "int more) {",
            '  asm volatile("{.reg .pred p; setp.ne.b32 p, %' + str(count + 2) + ', 0;"',
            f'               "{instruction.name} {registers_in_braces(0, count)}, %{count}, %{count + 1}, '
            f'p{_modifiers(instruction, turned)};}}"',
            f"               : {outputs}",
            '               : "l"(a), "l"(b), "r"(more));',
            "}",
        )
    )


def _modifiers(instruction: Instruction, turned: tuple[bool, bool]) -> str:
    """Of signs, which floats have, and of what is contiguous, which types of 16 bits have."""
    signs = "" if instruction.type("d") == "s32" else ", 1, 1"
    return signs + (f", {int(turned[0])}, {int(turned[1])}" if instruction.described[0].held.slot_bits == 16 else "")


def registers_in_braces(start: int, count: int) -> str:
    """Operands of inline PTX in braces."""
    return "{" + ", ".join(f"%{start + j}" for j in range(count)) + "}"


WORDS = {"f32": "float", "f64": "double", "s32": "int"}  # C++ types of registers; everything else is packed
LETTERS = {"float": "f", "double": "d", "int": "r", "unsigned": "r", "unsigned long long": "l"}
MOVES = ("ldmatrix", "stmatrix", "movmatrix")
WIDTH = 108
# what goes around the multiplies of a warpgroup: name, template, parameters, text, constraints, what it is for
AROUND = (
    (
        "fence",
        "",
        "",
        "wgmma.fence.sync.aligned;",
        "",
        "before the first multiply, and after registers of D or A were written otherwise",
    ),
    ("commit_group", "", "", "wgmma.commit_group.sync.aligned;", "", "the multiplies since the last group are a group"),
    (
        "wait_group",
        "int pending = 0",
        "",
        "wgmma.wait_group.sync.aligned %0;",
        ': "n"(pending) ',
        "until at most `pending` groups, the latest, are in flight: then registers of the others may be used",
    ),
    *(
        (
            "fence_operand",
            "int size",
            f"{kind} (&x)[size]",
            "",
            letter,
            "keeps the compiler from moving registers of D or A across: before `fence`, after `wait_group`",
        )
        for kind, letter in (("float", "f"), ("int", "r"), ("unsigned", "r"))
    ),
)


def register_type(fragment: Fragment) -> str:
    """The C++ type of a register of a fragment."""
    return WORDS.get(fragment.type, "unsigned")


def has_functions(instruction: Instruction) -> bool:
    """Whether there are functions of it: of multiplies whose operands are not in tensor memory, and of matrix moves."""
    return (instruction.multiplies and not instruction.unprobed) or instruction.family in MOVES


def function_name(instruction: Instruction) -> str:
    """The functions' name."""
    return "mma" if instruction.multiplies else instruction.family


@dataclass
class _Asm:
    """What a function takes, and how the asm statement refers to it; the outputs come first."""

    outputs: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    immediates: list[tuple[str, int]] = field(default_factory=list)
    rules: list[tuple[str, str]] = field(default_factory=list)  # what has to hold of immediates, and the words

    def array(self, fragment: Fragment, how: str = "") -> str:
        """A fragment's registers as PTX writes them; `how` is = or + where they are written."""
        name, kind = fragment.operand, register_type(fragment)
        self.parameters.append(f"{'' if how else 'const '}{kind} (&{name})[{fragment.registers}]")
        listed = self.outputs if how else self.inputs
        places = [self._add(listed, f"{how}{LETTERS[kind]}", f"{name}[{j}]") for j in range(fragment.registers)]
        return "{" + ", ".join(places) + "}"

    def value(self, name: str, kind: str = "unsigned", default: str = "") -> str:
        """A parameter in one register."""
        self.parameters.append(f"{kind} {name}{default}")
        return self._add(self.inputs, LETTERS[kind], name)

    def immediate(self, name: str, values: Sequence[int]) -> str:
        """A template argument in the asm, and which values it may have."""
        self.choice(name, values, f"{name} is {' or '.join(map(str, values))}")
        return self._add(self.inputs, "n", name)

    def choice(self, name: str, values: Sequence[int], words: str) -> None:
        """A template argument that has one of these values, the first if it is left out."""
        self.immediates.append((name, values[0]))
        self.rules.append((" || ".join(f"{name} == {value}" for value in values), words))

    def _add(self, listed: list[str], letter: str, expression: str) -> str:
        listed.append(f'"{letter}"({expression})')
        return f"%{len(self.outputs) + len(self.inputs) - 1}"

    def function(self, name: str, asm_lines: Sequence[str], clobbers_memory: bool) -> Iterator[str]:
        """The function; it `clobbers_memory` where it touches memory or something waits for it."""
        arguments = ", ".join(f"int {immediate} = {default}" for immediate, default in self.immediates)
        yield from [f"template <{arguments}>"] if arguments else []
        head = f"__device__ __forceinline__ static void {name}({', '.join(self.parameters)}) {{"
        whole = head.replace("long long", "long\xa0long").replace("unsigned ", "unsigned\xa0")  # not to be broken
        yield from (line.replace("\xa0", " ") for line in wrap(whole, WIDTH, subsequent_indent="    "))
        yield from (f'  static_assert({holds}, "{words}");' for holds, words in self.rules)
        yield "  asm volatile("
        lines = [line for part in asm_lines for line in wrap(part, WIDTH - 10, break_long_words=False)]
        yield from (f'      "{line}{" " if number + 1 < len(lines) else ""}"' for number, line in enumerate(lines))
        clobbered = ' : "memory"' if clobbers_memory else ""
        constraints = f": {', '.join(self.outputs)} : {', '.join(self.inputs)}{clobbered});"
        yield from (f"      {line}" for line in wrap(constraints.replace(":  :", "::"), WIDTH - 6))
        yield "}"


def instruction_functions(instruction: Instruction) -> Iterator[str]:
    """The functions of an instruction, as members of a struct."""
    if instruction.described:
        yield from _warpgroup(instruction, "a_smem")
        yield from _warpgroup(instruction, "a")
    else:
        yield from (_multiply if instruction.multiplies else _move)(instruction)


def _multiply(instruction: Instruction) -> Iterator[str]:
    asm = _Asm()
    written = [_operand_text(asm, fragment) for fragment in instruction.spelled]
    yield from asm.function("mma", [f"{instruction.name}", f"{', '.join(written)};"], clobbers_memory=False)


def _operand_text(asm: _Asm, fragment: Fragment) -> str:
    """An operand, with the immediates that select from it."""
    if not fragment.selectors:
        return asm.array(fragment, "=" if fragment.role is Role.RESULT else "")
    name = "metadata" if fragment.role is Role.METADATA else fragment.operand
    register, picks = asm.value(name), fragment.picks
    if not picks:
        return f"{register}, {asm.immediate('selector', fragment.selectors)}"
    immediates = (asm.immediate(f"{fragment.operand}_{pick}", values) for pick, values in picks)
    return f"{register}, {{{', '.join(immediates)}}}"


def _move(instruction: Instruction) -> Iterator[str]:
    """ldmatrix, stmatrix and movmatrix, whose registers PTX writes without braces."""
    asm = _Asm()
    operands = [
        f"[{asm.value(f.operand)}]" if f.role is Role.ADDRESS else asm.array(f, "=" if f.role is Role.RESULT else "")
        for f in instruction.spelled
    ]
    bare = instruction.family == "movmatrix"
    written = ", ".join(operand.strip("{}") if bare else operand for operand in operands)
    yield from asm.function(instruction.family, [f"{instruction.name} {written};"], clobbers_memory=not bare)


def _warpgroup(instruction: Instruction, operand_a: str) -> Iterator[str]:
    """D (+)= A B with B, and A where it is a_smem, behind descriptors; asynchronous."""
    asm, wide = _Asm(), "unsigned long long"
    written = [asm.array(instruction.fragment("d"), "+")]
    a_in_registers = operand_a == "a"
    written += [asm.array(instruction.fragment("a")) if a_in_registers else asm.value("descriptor_a", wide)]
    written += [asm.value("descriptor_b", wide)]
    if instruction.metadata:
        written += [_operand_text(asm, instruction.metadata)]
    written += ["add"]
    adds = asm.value("scale_d", "int", " = 1")
    if dtype(instruction.type("d")).is_float:
        written += [asm.immediate(name, (1, -1)) for name in ("scale_a", "scale_b")]
    if len(instruction.described[0].held.majors) > 1:
        # immediates that say whether m of A and n of B are contiguous; A in registers has none in PTX
        if a_in_registers:
            asm.choice("transpose_a", (0,), "A in registers cannot be transposed")
        names = ("transpose_b",) if a_in_registers else ("transpose_a", "transpose_b")
        written += [asm.immediate(name, (0, 1)) for name in names]
    yield from asm.function(
        "mma",
        [f"{{.reg .pred add; setp.ne.b32 add, {adds}, 0;", instruction.name, f"{', '.join(written)};}}"],
        clobbers_memory=False,
    )


def around_multiplies() -> Iterator[str]:
    """The functions around the multiplies of a warpgroup, named as PTX and CUTLASS name them."""
    for name, template, parameters, text, constraint, what in AROUND:
        yield f"/// {what}"
        yield from [f"template <{template}>"] if template else []
        yield f"__device__ __forceinline__ static void {name}({parameters}) {{"
        if parameters:
            yield "  #pragma unroll"
            yield f'  for (int j = 0; j < size; ++j) asm volatile("" : "+{constraint}"(x[j]) : : "memory");'
        else:
            yield f'  asm volatile("{text}" : {constraint or ": "}: "memory");'
        yield "}"


def target_guard(instruction: Instruction) -> str:
    """The preprocessor's condition that the target of this compilation has an instruction; host passes have all."""
    return " || ".join(["!defined(__CUDA_ARCH__)", *(_has(name) for name, _ in instruction.target.options)])


def _has(target: str) -> str:
    """Whether code is compiled for a target that has all that `target` has."""
    suffix = target[-1]
    if suffix.isdigit():
        return f"__CUDA_ARCH__ >= {target.removeprefix('sm_')}0"
    having = [row.number for row in ARCHS for own in row.targets if own[-1] == suffix and covers(own, target)]
    numbers = [*having, *(old for old, number in RENAMED.items() if number in having)]
    if suffix == "f":
        return " || ".join(f"__CUDA_ARCH_FAMILY_SPECIFIC__ == {number}0" for number in numbers)
    return " || ".join(f"defined(__CUDA_ARCH_FEAT_SM{n}_ALL) || __CUDA_ARCH_SPECIFIC__ == {n}0" for n in numbers)


def needed_target(instruction: Instruction) -> str:
    """What -arch has to be, in words."""
    names = [name for name, _ in instruction.target.options]
    return " or ".join(f"{name} or later" if name[-1].isdigit() else name for name in names)
