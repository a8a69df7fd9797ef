"""Where threads that part meet again: the first statement that every way from a branch to the end goes through.

>>> meeting(((1, 2), (3,), (3,), ()))
[3, 3, 3, -1]
"""

from __future__ import annotations

from collections.abc import Sequence


def meeting(follows: Sequence[Sequence[int]]) -> list[int]:
    """Of each block the nearest that every way from it to the end goes through; -1 where there is none.

    `follows` are the blocks that may come next. The algorithm of Cooper, Harvey and Kennedy, from the end backwards.
    """
    count = len(follows)
    end = count
    before: list[list[int]] = [[] for _ in range(count + 1)]
    for block, nexts in enumerate(follows):
        for following in nexts or (end,):
            before[following].append(block)
    order = _backwards(before, end)
    rank = {block: number for number, block in enumerate(order)}
    nearest = {end: end}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [n for n in (follows[block] or (end,)) if n in nearest]
            best = known[0]
            for other in known[1:]:
                best = _common(best, other, nearest, rank)
            if nearest.get(block) != best:
                nearest[block], changed = best, True
    return [found if (found := nearest.get(block, end)) != end else -1 for block in range(count)]


def _common(one: int, other: int, nearest: dict[int, int], rank: dict[int, int]) -> int:
    while one != other:
        while rank[one] > rank[other]:
            one = nearest[one]
        while rank[other] > rank[one]:
            other = nearest[other]
    return one


def _backwards(before: list[list[int]], end: int) -> list[int]:
    """Blocks from which the end is reached, each after those that follow it on some way."""
    done: list[int] = []
    seen = {end}
    stack = [(end, iter(before[end]))]
    while stack:
        block, more = stack[-1]
        following = next((b for b in more if b not in seen), None)
        if following is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(before[following])))
    return done[::-1]
