"""Graphs of numbered nodes, as control flow is: what is reached, where ways reconverge, facts to a fixed point.

A graph is given by what follows each node, a mapping or a sequence; `predecessors` turns it.

>>> follows = ((1, 2), (3,), (3,), ())
>>> sorted(reached(follows, [1])), immediate_post_dominators(follows)
([1, 3], [3, 3, 3, -1])
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeVar

Follows = Mapping[int, Iterable[int]] | Sequence[Iterable[int]]
Fact = TypeVar("Fact")
MOST_VISITS = 1000  # of one node; a join that does not settle is an error of who asks


def predecessors(follows: Sequence[Iterable[int]]) -> dict[int, tuple[int, ...]]:
    """By node, those that it follows."""
    found: dict[int, list[int]] = {number: [] for number in range(len(follows))}
    for number, nexts in enumerate(follows):
        for following in nexts:
            found[following].append(number)
    return {number: tuple(others) for number, others in found.items()}


def reached(follows: Follows, starts: Iterable[int], without: Collection[int] = ()) -> set[int]:
    """The nodes on ways from `starts` on, these too, that pass none of `without`."""
    seen, pending = set[int](), list(starts)
    while pending:
        number = pending.pop()
        if number not in seen and number not in without:
            seen.add(number)
            pending += follows[number]
    return seen


def natural_loops(follows: Sequence[Iterable[int]], start: int = 0) -> list[frozenset[int]]:
    """Loops by their heads, smallest first: a head is a node that one reached through it leads back to.

    Of a head: what it leads to, and what leads back to it without passing it. A loop with a second entry has no more.
    """
    back = dict[int, list[int]]()
    open_, done = {start}, set[int]()
    stack = [(start, iter(follows[start]))] if follows else []
    while stack:
        number, others = stack[-1]
        for after in others:
            if after in open_:
                back.setdefault(after, []).append(number)
            elif after not in done:
                open_.add(after)
                stack.append((after, iter(follows[after])))
                break
        else:
            open_.discard(number)
            done.add(number)
            stack.pop()
    before = predecessors(follows)
    loops = ({head} | reached(before, tails, {head}) & reached(follows, [head]) for head, tails in back.items())
    return sorted(map(frozenset, loops), key=lambda loop: (len(loop), min(loop)))


def immediate_post_dominators(follows: Sequence[Sequence[int]]) -> list[int]:
    """Of each node the nearest other one that every way from it to an end goes through; -1 where there is none.

    By K. Cooper, T. Harvey, K. Kennedy, A Simple, Fast Dominance Algorithm (2001), from one end behind all ends.
    """
    end = len(follows)
    before: list[list[int]] = [[] for _ in range(end + 1)]
    for number, nexts in enumerate(follows):
        for following in nexts or (end,):
            before[following].append(number)
    order = _reverse_postorder(before, end)
    rank = {number: place for place, number in enumerate(order)}
    nearest = {end: end}
    changed = True
    while changed:
        changed = False
        for number in order[1:]:
            best, *others = [n for n in (follows[number] or (end,)) if n in nearest]
            for other in others:
                best = _common(best, other, nearest, rank)
            if nearest.get(number) != best:
                nearest[number], changed = best, True
    return [found if (found := nearest.get(number, end)) != end else -1 for number in range(end)]


def _common(one: int, other: int, nearest: Mapping[int, int], rank: Mapping[int, int]) -> int:
    """The first node of the tree that both have: up from the deeper one, until they are one."""
    while one != other:
        if rank[one] > rank[other]:
            one = nearest[one]
        else:
            other = nearest[other]
    return one


def _reverse_postorder(follows: Sequence[Sequence[int]], start: int) -> list[int]:
    """The nodes that are reached, each before those that follow it on ways without a circle."""
    done, seen = list[int](), {start}
    stack = [(start, iter(follows[start]))]
    while stack:
        number, more = stack[-1]
        following = next((n for n in more if n not in seen), None)
        if following is None:
            done.append(number)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(follows[following])))
    return done[::-1]


def fixpoint(
    follows: Mapping[int, Iterable[int]] | Sequence[Iterable[int]],
    starts: Mapping[int, Fact],
    transfer: Callable[[int, Fact], Fact],
    join: Callable[[Fact, Fact], Fact],
    last_first: bool = False,
) -> dict[int, Fact]:
    """By node that is reached, the fact that holds where it begins, from what holds at `starts`.

    A fact is any value that can be compared. `transfer` says what a node makes of it, `join` what remains of two where
    ways meet, of two equal ones the same: one that only loses or only gains, in a set that is finite, ends. Nodes are
    visited in order of their numbers, or with `last_first` against it.
    """
    facts, pending, visits = dict(starts), set(starts), dict[int, int]()
    sign = -1 if last_first else 1
    order = sorted(sign * number for number in starts)  # a heap of those that are pending
    while order:
        number = sign * heappop(order)
        pending.discard(number)
        visits[number] = visits.get(number, 0) + 1
        assert visits[number] <= MOST_VISITS, f"facts at node {number} do not settle"
        fact = transfer(number, facts[number])
        for after in follows[number]:
            joined = fact
            if after in facts:
                known = facts[after]
                if known == fact or (joined := join(known, fact)) == known:
                    continue
            facts[after] = joined
            if after not in pending:
                pending.add(after)
                heappush(order, sign * after)
    return facts
