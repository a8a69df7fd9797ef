"""The page of what sparse multiplies do beyond PTX's text."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from tcprobe.ask.undocumented import Undocumented, everything
from tcprobe.pages.tables import MADE, code
from tcprobe.store.choose import alone
from tcprobe.store.results import Results
from tcprobe.text import markdown


def page(results: Results) -> Iterator[str]:
    """A section an arch; forms with the same finding share a line."""
    yield from (MADE, "# Sparse multiplies beyond what is documented", "")
    yield "Found on a GPU by `tcprobe run --family undocumented`; PTX promises none of it, and another GPU or"
    yield "driver may behave differently. For illegal values of four bits of metadata: at which index in its chunk a"
    yield "stored element is multiplied. Selectors beyond the documented ones: each was run in its own process."
    for name in results.archs():
        nearest = everything(name, alone(results))
        if nearest:
            yield from ("", f"## {name}", "", markdown(_how(nearest[0])))
            yield from _lists(nearest)


def _how(undocumented: Undocumented) -> str:
    return "Live on {device}, driver {driver}, CUDA {cuda}, tcprobe {tcprobe}.".format(**undocumented.provenance)


def _lists(nearest: list[Undocumented]) -> Iterator[str]:
    """What was found, each with the forms that it was found of."""
    forms: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for undocumented in nearest:
        forms.setdefault((tuple(undocumented.values_said), tuple(undocumented.selectors_said)), []).append(
            undocumented.metadata.experiment
        )
    for (values, selectors), ids in forms.items():
        yield from ("", *_wrap(", ".join(code(ids)) + ":"), "")
        yield from (f"- {markdown(words)}" for words in (*values, *selectors))


def _wrap(text: str) -> list[str]:
    return wrap(text, 120, break_long_words=False, break_on_hyphens=False)
