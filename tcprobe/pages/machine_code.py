"""Two pages of machine code: what instructions become in it, and where versions of ptxas agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import MULTIPLIED
from tcprobe.pages.tables import code, fitting, page, row_and_col, spans
from tcprobe.sass.lowering import NOTHING, Lowering
from tcprobe.store.results import Results
from tcprobe.store.surveys import ExceptionalFact, SavedSurvey
from tcprobe.text import markdown
from tcprobe.values import Json

LAYOUTS = "Layouts of machine instructions"
# (archs, words) of all archs, and the forms that become that
IdsByLowering = dict[tuple[tuple[str, str], ...], list[str]]


def has_lowerings(results: Results) -> bool:
    """Whether a folder has anything to say of machine code."""
    return any(results.lowering(name) or results.opcodes(name) for name in results.archs())


def lowering_page(results: Results) -> list[str]:
    """A section a family, and one of opcodes."""
    saved = {name: body for name in results.archs() if (body := results.lowering(name))}
    return page(
        "lowering.md",
        LAYOUTS=LAYOUTS,
        families={family: _lowering_rows(lines) for family, lines in _lowerings_by_family(saved).items()},
        layouts=_layouts(results),
        compilers=_archs_by_words({name: body["compiler"] for name, body in saved.items()}),
    )


def _lowerings_by_family(saved: Mapping[str, Json]) -> dict[str, IdsByLowering]:
    families: dict[str, IdsByLowering] = {}
    for row in inventory.instructions().values():
        bodies = {name: body["instructions"].get(row.id) for name, body in saved.items()}
        key = _archs_by_words(
            {name: _lowering_words(body, row) for name, body in bodies.items() if body and not body["refused"]}
        )
        if key:
            families.setdefault(row.family, {}).setdefault(key, []).append(row.id)
    return families


def _archs_by_words(words_by_arch: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(archs, words); archs with the same words share an entry."""
    archs: dict[str, list[str]] = {}
    for name, words in words_by_arch.items():
        archs.setdefault(words, []).append(name)
    return tuple((spans(names), words) for words, names in archs.items())


def _lowering_words(lowering_json: Json, instruction: Instruction) -> str:
    lowering = Lowering(**lowering_json)
    text = fitting([f"{opcode} x {n}" if n > 1 else opcode for opcode, n in lowering.opcodes.items()], 90)
    return text if lowering.native(instruction) else f"*emulated*: {text or NOTHING[instruction.multiplies]}"


def _lowering_rows(by_lowering: IdsByLowering) -> Iterator[list[str]]:
    for words_by_archs, ids in by_lowering.items():
        names = fitting(code(ids))
        yield from ([names if number == 0 else "", *pair] for number, pair in enumerate(words_by_archs))


def _layouts(results: Results) -> list[list[str]]:
    """The layouts of tensor-core machine instructions; opcodes that are alike share a line."""
    lines: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for name in results.archs():
        for opcode, saved in results.opcodes(name).items():
            for operands, layout in _operands(saved["layouts"]).items():
                key = (operands, f"[{layout[:6]}](layouts/{layout}.json)", *row_and_col(results.layout(layout)))
                lines.setdefault(key, []).append((opcode, name))
    return [
        [fitting(code(dict.fromkeys(o for o, _ in origins))), spans(a for _, a in origins), *key]
        for key, origins in sorted(lines.items(), key=lambda line: line[1])
    ]


def _operands(layout_ids: Mapping[str, str]) -> dict[str, str]:
    """Layouts by operand, C with D where it has the same."""
    by_operand = {name.upper(): layout_ids[name] for name in MULTIPLIED}
    if layout_ids.get("c", layout_ids["d"]) == layout_ids["d"]:
        return by_operand
    return {**by_operand, "C": layout_ids["c"]}


def compilers_page(survey: SavedSurvey) -> list[str]:
    """Versions and archs, what differs, what only some show, what is refused."""
    differing = ([f"{d.what} of `{d.ids[0]}`", d.archs, d.versions, _crop(d.words)] for d in differences(survey))
    return page(
        "compilers.md",
        survey=survey,
        pairs=sum(map(len, survey.archs.values())),
        versions=([name, spans(archs)] for name, archs in survey.archs.items()),
        differing=differing,
        shown=([one.what, one.archs, fitting(code(one.ids), 100), one.versions] for one in exceptions(survey)),
        refused=([one.archs, fitting(code(one.ids), 80), one.versions, _crop(one.words)] for one in refusals(survey)),
    )


class VersionStatement(NamedTuple):
    """What some versions say alike of some forms: archs and versions as spans, ids, and the words of a compiler."""

    what: str
    archs: str
    ids: list[str]
    versions: str
    words: str = ""


def differences(survey: SavedSurvey) -> Iterator[VersionStatement]:
    """What versions differ in: a statement for each form and each of the things that versions say of it."""
    for fact in survey.differing:
        by_content: dict[str, list[str]] = {}
        for version, content in fact.said.items():
            by_content.setdefault(content, []).append(version)
        for content, versions in by_content.items():
            yield VersionStatement(fact.what, fact.arch, [fact.id], _versions(versions, survey.versions), content)


def exceptions(survey: SavedSurvey) -> Iterator[VersionStatement]:
    """What only some versions show; what the same versions show is one statement."""
    groups: dict[tuple[str, tuple[str, ...]], list[ExceptionalFact]] = {}
    for fact in survey.exceptions:
        groups.setdefault((fact.what, tuple(fact.versions)), []).append(fact)
    for (what, versions), facts in groups.items():
        ids = list(dict.fromkeys(fact.id for fact in facts))
        yield VersionStatement(what, spans(fact.arch for fact in facts), ids, _versions(versions, survey.versions))


def refusals(survey: SavedSurvey) -> Iterator[VersionStatement]:
    """What versions refuse; what they refuse in the same words is one statement."""
    groups: dict[tuple[tuple[str, ...], str], list[tuple[str, str]]] = {}
    for fact in survey.refused:
        groups.setdefault((tuple(fact.words), next(iter(fact.words.values()))), []).append((fact.arch, fact.id))
    for (versions, words), facts in groups.items():
        ids = list(dict.fromkeys(id_ for _, id_ in facts))
        archs = spans(arch for arch, _ in facts)
        yield VersionStatement("refused", archs, ids, _versions(versions, survey.versions), words)


def _versions(some: Iterable[str], every: Sequence[str]) -> str:
    """Versions in few words."""
    return spans(*([name.removeprefix("ptxas ") for name in names] for names in (some, every)))


def _crop(words: str) -> str:
    text = markdown(words)
    return text if len(text) <= 100 else f"{text[:97]}..."
