"""Pictures of answers: conflicts as a map of banks, in a terminal and as SVG; cycles by warps and chains."""

from collections.abc import Iterator, Sequence
from html import escape
from math import log2
from typing import TYPE_CHECKING

from tcprobe.errors import UsageError
from tcprobe.layout.banks import BANKS
from tcprobe.question.terminal import BAD, Styled
from tcprobe.store.kinds.cost import Point
from tcprobe.text import Whole

if TYPE_CHECKING:
    from tcprobe.ask.banks.patterns import Phase

STYLE = (
    "text{font:11px sans-serif;fill:#333}rect{fill:#eee;stroke:#999;stroke-width:.5}polyline{fill:none;stroke-width:2}"
    ".bad{fill:#af5f5f}.axis{stroke:#999}@media(prefers-color-scheme:dark){text{fill:#ddd}rect{fill:#333}}"
)
COLOURS = ("#2b6cb0", "#2f855a", "#b7791f", "#97266d", "#4a5568")  # of one curve after the other
CELL, LEFT, TOP, HEIGHT, WIDTH = 18, 70, 40, 180, 360  # px


def meetings(phase: "Phase") -> list[int]:
    """How many parties meet in each bank of shared memory; 0 where no two do."""
    counts = [0] * BANKS
    for collision in phase.collisions:
        for bank in collision.banks if collision.memory == "shared" else ():
            counts[bank % BANKS] = max(counts[bank % BANKS], len(collision.parties))
    return counts


def bank_map(phases: Sequence["Phase"]) -> Iterator[str]:
    """A line a phase, a character a bank: how many words lanes want of it at once, + for ten and more."""
    drawn = [(number, meetings(phase)) for number, phase in enumerate(phases)]
    if any(any(counts) for _, counts in drawn):
        yield Whole(f"  bank     {''.join(f'{bank:<8}' for bank in range(0, BANKS, 8)).rstrip()}")
    for number, counts in drawn:
        if any(counts):
            row = "".join("." if not n else str(n) if n < 10 else "+" for n in counts)
            yield Styled(f"  phase {number:<2} {row}", row, folds=False, **BAD)


def bank_map_svg(phases: Sequence["Phase"], title: str) -> str:
    """The same as SVG, with a number in each bank where lanes collide."""
    parts = [f'<text x="8" y="16">{escape(title)}</text>']
    parts += [f'<text x="{LEFT + CELL * bank}" y="{TOP - 6}">{bank}</text>' for bank in range(0, BANKS, 4)]
    for number, phase in enumerate(phases):
        y = TOP + CELL * number
        parts.append(f'<text x="8" y="{y + 13}">phase {number}</text>')
        for bank, count in enumerate(meetings(phase)):
            x, kind = LEFT + CELL * bank, ' class="bad"' if count else ""
            said = f"{count} words of bank {bank} at once" if count else f"bank {bank}: no conflict"
            parts.append(f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}"{kind}><title>{said}</title></rect>')
            parts += [f'<text x="{x + 2}" y="{y + 13}">{count}</text>'] if count else []
    return _svg(parts, LEFT + CELL * BANKS + 8, TOP + CELL * len(phases) + 8, title)


def curve_svg(points: Sequence[Point], title: str) -> str:
    """Cycles of an SM for one, by warps, a curve for each number of chains; both axes are logarithmic."""
    if not points:
        raise UsageError("`points`: a curve has at least one.")
    most, least = max(p.cycles for p in points), min(p.cycles for p in points)
    warps = sorted({p.warps for p in points})
    wide, high = log2(warps[-1] / warps[0]) or 1, log2(most / least) or 1

    def x(point_warps: int) -> float:
        return round(LEFT + WIDTH * log2(point_warps / warps[0]) / wide, 1)

    def y(cycles: float) -> float:
        return round(TOP + HEIGHT * (1 - log2(cycles / least) / high), 1)

    parts = [f'<text x="8" y="16">{escape(title)}</text>', f'<text x="8" y="{TOP + 4}">{most:g} cycles</text>']
    parts += [f'<text x="8" y="{TOP + HEIGHT + 4}">{least:g}</text>']
    parts += [f'<text x="{x(n)}" y="{TOP + HEIGHT + 20}">{n}</text>' for n in warps]
    parts.append(f'<text x="{LEFT + WIDTH + 24}" y="{TOP + HEIGHT + 20}">warps</text>')
    for number, chains in enumerate(sorted({p.chains for p in points})):
        own, colour = sorted((p.warps, p.cycles) for p in points if p.chains == chains), COLOURS[number % len(COLOURS)]
        line = " ".join(f"{x(n)},{y(cycles)}" for n, cycles in own)
        parts.append(f'<polyline points="{line}" stroke="{colour}"/>')
        said = (f"<title>{n} warps, {chains} chains: {cycles:g} cycles</title>" for n, cycles in own)
        dots = zip(own, said, strict=True)
        parts += [f'<circle cx="{x(n)}" cy="{y(c)}" r="3" fill="{colour}">{text}</circle>' for (n, c), text in dots]
        parts.append(
            f'<text x="{LEFT + WIDTH + 24}" y="{TOP + 16 * number}" style="fill:{colour}">{chains} '
            f"chain{'s' * (chains > 1)}</text>"
        )
    return _svg(parts, LEFT + WIDTH + 100, TOP + HEIGHT + 32, title)


def _svg(parts: Sequence[str], width: float, height: float, title: str) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{escape(title)}">'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])
