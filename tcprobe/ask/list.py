"""The question `list`: what there is, by family and shape, or every fragment that patterns mean."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

import click

from tcprobe.ask.entry import FormEntry, FragmentEntry, SharedEntry, form_entry, fragment_entry, shared_entry
from tcprobe.isa import arch as archs
from tcprobe.isa.arch import least_cuda, version
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.isa.names import filter_allowed, resolve
from tcprobe.question import terminal
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.question.arguments import arch_name, words
from tcprobe.question.declare import NameWords, Option, command, note
from tcprobe.question.options import NonEmptyText
from tcprobe.question.shared import ArchOption, JsonOption
from tcprobe.question.terminal import Styled, pager, stated_width
from tcprobe.text import Whole
from tcprobe.values import Json

FEW = 4  # shapes that differ in N alone, above which the N are given as a range


class ListedFragment(FragmentEntry, kw_only=True):
    """A fragment."""

    min_cuda: str


class ListedShared(SharedEntry):
    """An operand behind a descriptor."""

    min_cuda: str


class ListedForm(FormEntry, kw_only=True):
    """An instruction that holds nothing in registers."""

    min_cuda: str


class Listed(NamedTuple):
    """Fragments in registers, operands in shared memory, instructions without either; in words `by_family`, or each."""

    fragments: Sequence[Fragment]
    shared: Sequence[SharedOperand]
    forms: Sequence[Instruction]
    by_family: bool

    @property
    def in_words(self) -> Iterator[str]:
        """A line each, or counts and shapes of each family."""
        return self._families() if self.by_family else self._each()

    def to_json(self) -> list[Json]:
        """An entry each, with `min_cuda`, the first CUDA toolkit that compiles it for its least target."""
        return [
            *(_listed(ListedFragment, fragment_entry(fragment)) for fragment in self.fragments),
            *(_listed(ListedShared, shared_entry(operand)) for operand in self.shared),
            *(_listed(ListedForm, form_entry(form)) for form in self.forms),
        ]

    def _each(self) -> Iterator[str]:
        """Aligned columns, never cut; then operands in shared memory, and what holds nothing in registers."""
        rows = [("fragment", "rows x cols", "elements x threads", "registers", "from")]
        for f in self.fragments:
            held = (f"{f.elements} x {f.threads}", f"{f.registers} x {f.register_bits} bits")
            rows.append((f.id, f"{f.rows} x {f.cols}", *held, f.target.name))
        for operand in self.shared:
            held = ("in shared memory", f"major {' or '.join(operand.held.majors)}")
            rows.append(
                (operand.id, f"{operand.held.rows} x {operand.held.cols}", *held, operand.instruction.target.name)
            )
        rows += [(row.id, "-", "-", "none", row.target.name) for row in self.forms]
        for number, text in enumerate(_align(rows, stated_width())):
            yield Styled(text, text, folds=False, bold=True) if number == 0 else Whole(text)
        others = f", {len(self.shared)} operands in shared memory" if self.shared else ""
        others += f", {len(self.forms)} instructions without any" if self.forms else ""
        note(f"{len(self.fragments)} fragments{others}")

    def _families(self) -> Iterator[str]:
        """By family how many fragments, the least arch, and the shapes."""
        names = dict.fromkeys((*(row.family for row in self.fragments), *(row.family for row in self.forms)))
        for name in names:
            rows = [fragment for fragment in self.fragments if fragment.family == name]
            behind = [operand for operand in self.shared if operand.instruction.family == name]
            bare = [row for row in self.forms if row.family == name]
            counted = (
                f"{len(rows)} fragments" if rows else "",
                f"{len(behind)} in shared memory" if behind else "",
                f"{len(bare)} instructions without any" if bare else "",
            )
            needed = [*(fragment.target for fragment in rows), *(row.target for row in bare)]
            targets = [(one.name, one.ptx) for one in needed]
            least, ptx = min(targets, key=lambda one: (int(re.sub(r"\D", "", one[0])), one[0], version(one[1])))
            since = f"{least} and later (CUDA {least_cuda(ptx, least)})"
            yield Styled(f"{name}: {', '.join(filter(None, counted))}, {since}", name, bold=True)
            if shapes := list(dict.fromkeys(fragment.shape for fragment in rows if fragment.shape.k)):
                yield f"    {', '.join(_shapes((shape.m, shape.n, shape.k) for shape in shapes))}"
        yield "`tcprobe list FAMILY` lists a family, `tcprobe list 'm16n8k16*bf16*'` what a pattern matches"


def list_(
    patterns: Annotated[
        str | Sequence[str], NameWords("[PATTERN]...", number="many", archs="list", required=False)
    ] = (),
    *,
    family: Annotated[
        str | None,
        Option("--family", "Only this family of instructions: wmma, mma, ldmatrix, ...", "NAME", NonEmptyText()),
    ] = None,
    arch: ArchOption = None,
) -> Listed:
    """List fragments by PATTERN, arch or family; without any of these, the families with their shapes.

    Operands in shared memory behind descriptors, and instructions that hold nothing in registers, come last.
    """
    names = [patterns] if isinstance(patterns, str) else words("patterns", patterns)
    on = arch_name(arch)
    devices = [archs.arch(each) for each in on.split(",")] if on else []
    meanings = [resolve(pattern) for pattern in names or ("*",)]
    held = [meaning.fragments if meaning.shared or meaning.bare else meaning.some_fragments for meaning in meanings]
    return Listed(
        filter_allowed((row for rows in held for row in rows), family, devices),
        filter_allowed((row for meaning in meanings for row in meaning.shared), family, devices),
        filter_allowed((row for meaning in meanings for row in meaning.bare), family, devices),
        not (names or on or family),
    )


def _listed(kind: type[Answer], entry: FragmentEntry | SharedEntry | FormEntry) -> Json:
    return plain(kind.of(entry, min_cuda=least_cuda(entry.min_ptx, entry.min_arch)))


@command(
    list_,
    short="List fragments, with patterns.",
    json=Annotated[
        ListedFragment | ListedShared | ListedForm,
        Meta(
            description="An entry of the array that `list` prints: a fragment, an operand behind a descriptor, or an "
            "instruction that holds nothing in registers."
        ),
    ],
)
def print_list(listed: Listed, *, as_json: JsonOption = False) -> None:
    """All of them, through the pager, or one list of JSON."""
    if as_json:
        click.echo(json.dumps(listed.to_json(), indent=1))
        return
    with pager():
        terminal.lines(listed.in_words)


def _align(table_lines: Sequence[Sequence[str]], columns: int | None) -> Iterator[str]:
    """Rows in aligned columns; the first cell stands on a line of its own where a row would be too wide."""
    widths = [max(len(row[j]) for row in table_lines) for j in range(len(table_lines[0]))]
    apart = columns is not None and sum(widths) + 2 * (len(widths) - 1) > columns
    for row in table_lines:
        rest = "  ".join(cell.ljust(width) for cell, width in zip(row[1:], widths[1:], strict=True)).rstrip()
        yield f"{row[0]}\n  {rest}" if apart else f"{row[0].ljust(widths[0])}  {rest}".rstrip()


def _shapes(shapes: Iterable[tuple[int, int, int]]) -> list[str]:
    """m16n8k16 and the like; m64nNk16 (N 8 to 256) where many differ in N alone."""
    widths: dict[tuple[int, int], list[int]] = {}
    for m, n, k in shapes:
        widths.setdefault((m, k), []).append(n)
    return [
        text
        for (m, k), ns in widths.items()
        for text in ([f"m{m}nNk{k} (N {min(ns)} to {max(ns)})"] if len(ns) > FEW else [f"m{m}n{n}k{k}" for n in ns])
    ]
