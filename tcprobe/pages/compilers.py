"""The page of compilers: what versions of ptxas agree in, and the exceptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tcprobe.pages.tables import MADE, code, fitting, grid, spans
from tcprobe.store.compilers import ExceptionalFact, SavedSurvey
from tcprobe.text import markdown

Group = dict[tuple[str, ...], dict[str, list[str]]]  # ids by arch, by versions


def page(survey: SavedSurvey) -> Iterator[str]:
    """Versions and archs, what differs, what only some show, what is refused."""
    pairs = sum(map(len, survey.archs.values()))
    yield from (MADE, "# What compilers agree in", "")
    yield f"{len(survey.versions)} versions of ptxas, {pairs} pairs of version and arch. Of the machine code of all of"
    yield f"them {survey.tables} tables of fragments and {survey.lowerings} lowerings of instructions are the same in"
    yield f"every version that shows one; {len(survey.differing) or 'none'} differ. `tools/compilers.py` makes this"
    yield "page again from the package index; `tcprobe compilers` compares installed toolkits."
    yield from ("", "## Versions", "")
    yield from grid(["version", "archs"], ([name, spans(archs)] for name, archs in survey.archs.items()))
    yield from ("", "## What differs", "")
    if survey.differing:
        yield from grid(["what", "arch", "versions", "say"], _differing(survey))
    else:
        yield "Nothing."
    yield from ("", "## Shown by some versions only", "")
    yield "Forms that a version which knows the arch does not show: it is too old for them, or refuses them."
    yield ""
    yield from grid(["what", "archs", "forms", "versions"], _exceptions(survey))
    yield from ("", "## Refused, or not read", "")
    yield from grid(["archs", "forms", "versions", "words"], _refused(survey))


def _differing(survey: SavedSurvey) -> Iterator[list[str]]:
    for fact in survey.differing:
        by_content: dict[str, list[str]] = {}
        for version, content in fact.said.items():
            by_content.setdefault(content, []).append(version)
        for content, versions in by_content.items():
            yield [f"{fact.what} of `{fact.id}`", fact.arch, _versions(versions, survey.versions), _cut(content)]


def _exceptions(survey: SavedSurvey) -> Iterator[list[str]]:
    groups: dict[tuple[str, tuple[str, ...]], list[ExceptionalFact]] = {}
    for fact in survey.exceptions:
        groups.setdefault((fact.what, tuple(fact.versions)), []).append(fact)
    for (what, versions), facts in groups.items():
        ids = fitting(code(dict.fromkeys(fact.id for fact in facts)), 100)
        yield [what, spans(fact.arch for fact in facts), ids, _versions(versions, survey.versions)]


def _refused(survey: SavedSurvey) -> Iterator[list[str]]:
    groups: dict[tuple[tuple[str, ...], str], list[tuple[str, str]]] = {}
    for fact in survey.refused:
        words = next(iter(fact.words.values()))
        groups.setdefault((tuple(fact.words), words), []).append((fact.arch, fact.id))
    for (versions, words), facts in groups.items():
        ids = fitting(code(dict.fromkeys(id_ for _, id_ in facts)), 80)
        yield [spans(arch for arch, _ in facts), ids, _versions(versions, survey.versions), _cut(words)]


def _versions(some: Iterable[str], every: Sequence[str]) -> str:
    """Versions in few words: runs by their ends."""
    wanted, runs = set(some), list[list[str]]()
    for number, name in enumerate(every):
        if name in wanted:
            follows = number and every[number - 1] in wanted
            runs[-1].append(name) if follows else runs.append([name])
    short = [[name.removeprefix("ptxas ") for name in run] for run in runs]
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in short)


def _cut(words: str) -> str:
    text = markdown(words)
    return text if len(text) <= 100 else f"{text[:97]}..."
