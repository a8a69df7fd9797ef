"""Compares the machine code of several compilers: the facts in which all agree, and those in which they differ.

For every version and arch: the tables that the code shows, and the matrix instructions that each form becomes. A
version that does not know an arch, or is too old for the PTX of a form, has no fact of it; that is not a refusal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from tcprobe.ask.diff import Difference, arch_by_arch
from tcprobe.errors import DataError, UsageError
from tcprobe.isa import arch, inventory
from tcprobe.isa.arch import WARP, Arch, version
from tcprobe.question.answers import Answer, plain
from tcprobe.run.campaign import AT_ONCE, Campaign, Report, Request
from tcprobe.run.merge import Conflict, merge
from tcprobe.sass import lowering, toolchain
from tcprobe.sass.cubin import assemble
from tcprobe.sass.lowering import Lowering
from tcprobe.sass.toolchain import Toolchain, attempt
from tcprobe.store.choose import Layer, Layers
from tcprobe.store.results import Results
from tcprobe.system import children
from tcprobe.system.children import Scratch
from tcprobe.text import escaped
from tcprobe.values import Json

SHOWN = ("sass", "derived")  # methods by which the code of an arch alone shows tables
TOO_NEW = ".version 99.9\n.target sm_80\n.address_size 64\n"
_CURRENT = re.compile(r"current version is '([0-9]{1,2}\.[0-9]{1,2})'")


class ComparedFact(NamedTuple):
    """What is compared: a fragment's "table" or a form's "lowering", on an arch."""

    what: str
    id: str
    arch: str


class FactAnswer(Answer):
    """What is compared: a fragment's table or a form's lowering, on an arch."""

    what: Literal["table", "lowering"]
    id: str
    arch: str


class DifferingVersions(FactAnswer):
    """What each version says."""

    said: dict[str, str]


class KnownException(FactAnswer):
    """What only some versions say, and which."""

    versions: list[str]


class RefusedVersions(FactAnswer):
    """Why each version refuses it."""

    words: dict[str, str]


class SurveyAnswer(Answer):
    """What several versions of ptxas agree in; one object."""

    versions: list[str]
    archs: dict[str, list[str]]
    tables: int
    lowerings: int
    differing: list[DifferingVersions]
    exceptions: list[KnownException]
    refused: list[RefusedVersions]


@dataclass
class Survey:
    """By fact and version: the content; by version the archs that it knows; by fact and version ptxas's refusals."""

    facts: dict[ComparedFact, dict[str, str]] = field(default_factory=dict)
    archs: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[ComparedFact, dict[str, str]] = field(default_factory=dict)

    @property
    def differing(self) -> dict[ComparedFact, dict[str, str]]:
        """The facts in which two versions differ."""
        return {fact: versions for fact, versions in sorted(self.facts.items()) if len(set(versions.values())) > 1}

    def alike(self, what: str) -> int:
        """How many facts of a kind are the same in all versions that have them."""
        return sum(fact.what == what and len(set(versions.values())) == 1 for fact, versions in self.facts.items())

    @property
    def since(self) -> dict[ComparedFact, list[str]]:
        """The facts that not all versions have which know the arch, each with the versions that have it."""
        return {
            fact: list(versions)
            for fact, versions in sorted(self.facts.items())
            if set(versions) != {compiler for compiler, names in self.archs.items() if fact.arch in names}
        }

    @property
    def in_words(self) -> Iterator[str]:
        """The archs of each compiler, how much all agree on, what differs, what some only show, what they refuse."""
        for compiler, archs in self.archs.items():
            yield f"{compiler}: {', '.join(archs) or 'does not know the arch'}"
        tables, lowerings = self.alike("table"), self.alike("lowering")
        yield f"identical in every compiler that shows them: {tables} tables, {lowerings} lowerings"
        for fact, contents in self.differing.items():
            words = "; ".join(f"{content} by {compiler}" for compiler, content in contents.items())
            yield escaped(f"{fact.what} of {fact.id} on {fact.arch} differs: {words}")
        for fact, versions in self.since.items():
            yield f"{fact.what} of {fact.id} on {fact.arch}: only by {', '.join(versions)}"
        for fact, refusals in sorted(self.refused.items()):
            by = "; ".join(f"{compiler}: {reason}" for compiler, reason in refusals.items())
            yield escaped(f"{fact.id} on {fact.arch} is refused by {by}")

    def to_json(self) -> Json:
        answer = SurveyAnswer(
            list(self.archs),
            self.archs,
            self.alike("table"),
            self.alike("lowering"),
            [DifferingVersions.of(fact, said=said) for fact, said in self.differing.items()],
            [KnownException.of(fact, versions=versions) for fact, versions in self.since.items()],
            [RefusedVersions.of(fact, words=words) for fact, words in sorted(self.refused.items())],
        )
        return plain(answer)


def survey(
    folders: Sequence[Path],
    name: str | None,
    patterns: Sequence[str] = (),
    tick: Callable[[int, str | None], None] = lambda _, __: None,
) -> Survey:
    """Compare the toolkits in `folders`, or the installed one alone, on arch `name` or on all archs that they know.

    `tick` is called as (archs more, None), and as (0, compiler and arch) for each that is read.
    """
    comparison = Survey()
    toolkits: list[Path | None] = [*folders]
    for folder in toolkits or [None]:
        tools = toolchain.find(folder)
        compiler = f"ptxas {tools.ptxas_version}"
        if compiler in comparison.archs:
            raise UsageError(f"{compiler} is given twice.")
        rows = [row for row in tools.archs if name in (None, "all") or row == arch.arch(name or "")]
        comparison.archs[compiler] = [row.name for row in rows]
        tick(len(rows), None)
        if rows:
            request = Request(tuple(patterns), name, method="sass", cuda=folder)
            for fact, layout in _tables(request, rows).items():
                comparison.facts.setdefault(fact, {})[compiler] = layout
            _note_lowerings(comparison, compiler, tools, rows)
        for row in rows:
            tick(0, f"{compiler} {row.name}")
    if not any(comparison.archs.values()):
        raise UsageError(f"no ptxas there knows {name}.")
    return comparison


def _tables(request: Request, survey_archs: Sequence[Arch]) -> dict[ComparedFact, str]:
    """The layouts that a compiler's code shows, for some archs."""
    with Scratch() as scratch:
        Campaign(request, scratch.folder).run(None)
        results = Results(scratch.folder)
        return {
            ComparedFact("table", fragment.id, row.name): measured.tables[fragment.operand].id
            for row in survey_archs
            for method in results.methods(row.name)
            if method in SHOWN
            for measured in results.measurements(row.name, method)
            for fragment in inventory.of_experiment(measured.experiment)
            if fragment.operand in measured.tables
        }


def _note_lowerings(comparison: Survey, compiler: str, tools: Toolchain, survey_archs: Sequence[Arch]) -> None:
    """The matrix opcodes of every form that a warp executes, or why it is refused, arch by arch."""
    newest = newest_ptx(tools)
    with children.threads(AT_ONCE) as pool:
        for row, by_form in zip(
            survey_archs, pool.map(lambda row: _lowerings(tools, row, newest), survey_archs), strict=True
        ):
            for id_, lowered in by_form.items():
                fact = ComparedFact("lowering", id_, row.name)
                if lowered.refused:
                    comparison.refused.setdefault(fact, {})[compiler] = lowered.refused
                else:
                    opcodes = [f"{opcode} x {n}" if n > 1 else opcode for opcode, n in lowered.opcodes.items()]
                    comparison.facts.setdefault(fact, {})[compiler] = ", ".join(opcodes) or "none"


def _lowerings(tools: Toolchain, arch: Arch, newest: tuple[int, int]) -> dict[str, Lowering]:
    """The lowering of each form on an arch, all assembled in one call; without forms newer than PTX `newest`."""
    forms = {f.id: f for f in inventory.executed_by(WARP) if f.target.on(arch) and version(f.target.ptx) <= newest}
    kernels = {id_: lowering.probe(form) for id_, form in forms.items()}
    codes, refused = assemble(tools, list(kernels.values()), arch)
    untried = [form for id_, form in forms.items() if kernels[id_].name in refused]
    lowered = lowering.lower(tools, arch, untried)  # refused is said only after the arch's own targets
    rest = [id_ for id_ in forms if id_ not in lowered]
    return lowered | {id_: lowering.count(codes[kernels[id_].name].opcodes, forms[id_]) for id_ in rest}


def newest_ptx(tools: Toolchain) -> tuple[int, int]:
    """The newest PTX version that a ptxas accepts, from its error message for a newer one."""
    with Scratch() as scratch:
        source = scratch.folder / "new.ptx"
        source.write_text(TOO_NEW)
        completed = attempt(scratch, [tools.ptxas, str(source), "-o", str(scratch.folder / "new.cubin")], tools.limit)
    match = _CURRENT.search(completed.stderr)
    if not match:
        raise DataError(f"{tools.ptxas} does not say which PTX versions it accepts.")
    return version(match[1])


def compilers(cuda: Sequence[Path], name: str | None, patterns: Sequence[str] = ()) -> Iterator[Difference]:
    """How the machine code of two toolkits differs, for arch `name` or for all archs that both know.

    UsageError unless there are two.
    """
    if len(cuda) != 2:
        raise UsageError("give two archs, two folders of results, or `cuda` twice.")
    with Scratch() as scratch:
        sides = []
        for number, toolkit in enumerate(cuda):
            results = Results(scratch.folder / str(number))
            request = Request(arch=name, method="sass", cuda=toolkit)
            Campaign(request, results.root, lambda text: print(text, file=sys.stderr)).run(None)
            sides.append(Layers([Layer(results, str(toolkit), str(toolkit))]))
        yield from arch_by_arch((sides[0], sides[1]), None, patterns)


def read_beside(
    cuda: Sequence[Path], request: Request, folder: Path, say: Callable[[str], None]
) -> tuple[list[Report], list[Conflict]]:
    """Carry out a request with other toolkits and merge into runs of a folder; returns reports and contradictions."""
    reports: list[Report] = []
    conflicts: list[Conflict] = []
    for toolkit in cuda:
        with Scratch() as scratch:
            reports += Campaign(replace(request, cuda=toolkit), scratch.folder, say).run(None)
            conflicts += merge([scratch.folder], Results(folder)).conflicts
    return reports, conflicts
