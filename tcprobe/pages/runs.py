"""The part of the overview on what was run: by which method, with what, how much came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tcprobe.pages.tables import grid, spans
from tcprobe.store.finding import FROM_CODE
from tcprobe.store.measurement import Measurement
from tcprobe.store.results import Results
from tcprobe.text import markdown

MOST_MADE = 80  # characters of what a run was made with


def table(results: Results) -> Iterator[str]:
    """A line for each method and compiler or device; archs that are alike share it."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for folder in (results, *results.runs()):
        for name in folder.archs():
            for method in folder.methods(name):
                lines.setdefault(_line(method, list(folder.measurements(name, method))), []).append(name)
    rows = ([spans(archs), *key] for key, archs in lines.items())
    yield from grid(["archs", "method", "made with", "measured", "refused", "failed"], rows)


def _line(method: str, measurements: Sequence[Measurement]) -> tuple[str, ...]:
    counts = Counter(m.status for m in measurements)
    makers = "; ".join(sorted({_maker(m) for m in measurements}))
    makers = makers if len(makers) <= MOST_MADE else f"{makers[: MOST_MADE - 3]}..."
    return (method, markdown(makers), *(str(counts[status]) for status in ("measured", "refused", "failed")))


def _maker(measured: Measurement) -> str:
    p = measured.provenance
    return p["compiler"] if measured.method in FROM_CODE else f"{p['device']}, driver {p['driver']}, CUDA {p['cuda']}"
