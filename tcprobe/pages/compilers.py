"""The page of compilers: what versions of ptxas agree in, and the exceptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tcprobe.pages.tables import MADE, code, fitting, grid, spans
from tcprobe.store.surveys import ExceptionalFact, SavedSurvey
from tcprobe.text import markdown


def page(survey: SavedSurvey) -> Iterator[str]:
    """Versions and archs, what differs, what only some show, what is refused."""
    pairs = sum(map(len, survey.archs.values()))
    yield from (MADE, "# What compilers agree on", "")
    yield f"{len(survey.versions)} versions of ptxas, {pairs} pairs of version and arch. In their machine code,"
    yield f"{survey.tables} tables of fragments and {survey.lowerings} lowerings of instructions are identical in"
    yield f"every version that shows them; {len(survey.differing) or 'none'} differ. `tools/compilers.py` makes this"
    yield "page again from the package index; `tcprobe compilers` compares installed toolkits."
    yield from ("", "## Versions", "")
    yield from grid(["version", "archs"], ([name, spans(archs)] for name, archs in survey.archs.items()))
    yield from ("", "## What differs", "")
    if survey.differing:
        yield from grid(["what", "arch", "versions", "say"], _differences(survey))
    else:
        yield "Nothing."
    yield from ("", "## Shown by some versions only", "")
    yield "Forms that some version does not show although it knows the arch: it is too old for them, or refuses them."
    yield ""
    yield from grid(["what", "archs", "forms", "versions"], _exceptions(survey))
    yield from ("", "## Refused, or not read", "")
    yield from grid(["archs", "forms", "versions", "words"], _refusals(survey))


def _differences(survey: SavedSurvey) -> Iterator[list[str]]:
    for statement in differences(survey):
        yield [f"{statement.what} of `{statement.ids[0]}`", statement.archs, statement.versions, _crop(statement.words)]


def _exceptions(survey: SavedSurvey) -> Iterator[list[str]]:
    for statement in exceptions(survey):
        yield [statement.what, statement.archs, fitting(code(statement.ids), 100), statement.versions]


def _refusals(survey: SavedSurvey) -> Iterator[list[str]]:
    for statement in refusals(survey):
        yield [statement.archs, fitting(code(statement.ids), 80), statement.versions, _crop(statement.words)]


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
