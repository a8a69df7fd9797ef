"""Shuffle rounds: in one round a lane sends one word and receives one, so words are the edges of a bipartite graph.

A bipartite multigraph of greatest degree n has an edge colouring of n colours (König 1916): n shuffles are enough,
and fewer are not, since some lane sends or receives n words.

>>> from tcprobe.ask.convert.schedule import rounds
>>> rounds([(0, 1), (0, 2), (3, 1)])
[0, 1, 1]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

Edge = tuple[int, int]  # (sending lane, receiving lane)


def degree(edges: Sequence[Edge]) -> int:
    """The most words that a lane sends or receives: the fewest rounds."""
    sent, received = Counter(s for s, _ in edges), Counter(d for _, d in edges)
    return max([0, *sent.values(), *received.values()])


def rounds(edges: Sequence[Edge]) -> list[int]:
    """A round for every edge, `degree(edges)` rounds in all."""
    colouring = _Colouring(degree(edges))
    for source, target in edges:
        colouring.add(("s", source), ("d", target))
    return colouring.colours


Node = tuple[str, int]  # "s" or "d", and the lane


class _Colouring:
    """Edges coloured one after the other; where none of the colours is free at both ends, a path is recoloured."""

    def __init__(self, most: int) -> None:
        self.colours: list[int] = []
        self._most = most
        self._ends: list[tuple[Node, Node]] = []
        self._at: dict[Node, dict[int, int]] = {}  # colour -> edge

    def add(self, sender: Node, receiver: Node) -> None:
        """Colour one more edge."""
        left, right = self._at.setdefault(sender, {}), self._at.setdefault(receiver, {})
        free = [c for c in range(self._most) if c not in left]
        colour = next((c for c in free if c not in right), None)
        if colour is None:
            colour = free[0]
            self._swap(receiver, (colour, next(c for c in range(self._most) if c not in right)))
        left[colour] = right[colour] = len(self._ends)
        self._ends.append((sender, receiver))
        self.colours.append(colour)

    def _swap(self, start: Node, colours: tuple[int, int]) -> None:
        """Exchange a pair of colours along the path of edges that alternates between them from `start`."""
        first, second = colours
        path, node, colour = [], start, first
        while colour in self._at[node]:
            edge = self._at[node][colour]
            path.append(edge)
            source, target = self._ends[edge]
            node = source if node == target else target
            colour = second if colour == first else first
        for edge in path:
            for end in self._ends[edge]:
                del self._at[end][self.colours[edge]]
        for edge in path:
            self.colours[edge] = second if self.colours[edge] == first else first
            for end in self._ends[edge]:
                self._at[end][self.colours[edge]] = edge
