"""Names that a C++ compiler mangled, as people can read them: scopes and name, and what tells instances apart.

By the Itanium C++ ABI, section 5.1: of a template's arguments the leaves are taken, the names, builtin types and
literals in their order. Names are from outside: what is not mangled as this reads it stays as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

MOST_LABEL, MOST_NAME = 96, 56  # characters of a label, and of the name in it
_BUILTIN = {
    "a": "signed char",
    "b": "bool",
    "c": "char",
    "d": "double",
    "f": "float",
    "h": "unsigned char",
    "i": "int",
    "j": "unsigned",
    "l": "long",
    "m": "unsigned long",
    "s": "short",
    "t": "unsigned short",
    "v": "void",
    "x": "long long",
    "y": "unsigned long long",
}
# a literal, the length of a name, what opens, what closes, what is passed over, and letters of which some are types
_TOKEN = re.compile(
    r"L([a-z])(n?[0-9]+)E|([0-9]{1,5})|([INJXF])|(E)|S[0-9A-Z]*_|S[tabsiod]|T[0-9]*_|D[a-z]|[A-Z]|([a-z])"
)
_PLAIN = ("tuple", "integral_constant")  # templates that say nothing of what has them
DEEPEST = 2  # templates that an argument leads into and that are named


class Demangled(NamedTuple):
    """Scopes and name with the templates that its first argument is an instance of, and the leaves of its arguments,
    names, builtin types and literals; None where it is no instance of a template.
    """

    name: str
    leaves: tuple[str, ...] | None


def unmangled(name: str) -> str:
    """The scopes and name of a C++ function whose name a compiler mangled; the name itself where it is no such one.

    >>> unmangled("_ZN4ours4gemmILi128EEEvPK6__half"), unmangled("_Z4gemmPf"), unmangled("gemm")
    ('ours::gemm<...>', 'gemm', 'gemm')
    """
    found = demangled(name)
    return found.name if found.leaves is None else f"{found.name}<...>"


def demangled(name: str) -> Demangled:
    """What is read of a name.

    >>> demangled("_ZN4ours4gemmILi128ELb1E6__halfEEvPKS1_")
    Demangled(name='ours::gemm', leaves=('128', 'true', '__half'))
    >>> demangled("_Z6kernelIN4ours4tileILi64EEEEvv")
    Demangled(name='kernel<tile>', leaves=('64',))
    """
    rest, nested = (name[3:], True) if name.startswith("_ZN") else (name[2:], False)
    parts: list[str] = []
    while name.startswith("_Z") and rest[:1].isdigit() and rest.isascii():
        digits = len(rest) - len(rest.lstrip("0123456789"))
        length = int(rest[:digits]) if digits < 6 else 0  # no name is longer
        part, rest = rest[digits : digits + length], rest[digits + length :]
        if len(part) < max(1, length):
            return Demangled(name, None)
        parts.append("(anonymous)" if part.startswith("_GLOBAL__N") else part)
        if not nested:
            break
    if not parts:
        return Demangled(name, None)
    if not rest.startswith("I"):
        return Demangled("::".join(parts), None)
    within, leaves = _arguments(rest)
    return Demangled("::".join(parts) + "".join(f"<{one}" for one in within) + ">" * len(within), leaves)


def _arguments(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of the arguments that a text begins with, to where they are closed: the templates that the first one leads into,
    and the leaves.
    """
    place, opened, leaves = 0, "", list[str]()
    within, name = list[str](), ""  # the last name, of which it is not known yet whether it is a scope or a template
    while match := _TOKEN.match(text, place):
        kind, literal, length, opens, closes, letter = match.groups()
        place = match.end()
        if name and opens != "I" and not (length and opened.endswith("N")):
            leaves.append(name)
            name = ""
        if literal:
            leaves.append({"b0": "false", "b1": "true"}.get(kind + literal, literal.replace("n", "-")))
        elif length:
            name = text[place : place + int(length)]
            place += int(length)
        elif opens:
            if name and not leaves and name not in _PLAIN and len(within) < DEEPEST:
                within.append(name)
            opened, name = opened + opens, ""
        elif closes:
            opened = opened[:-1]
            if not opened:
                break
        elif letter in _BUILTIN:
            leaves.append(_BUILTIN[letter])
    return tuple(within), tuple(leaves)


def labels(names: Iterable[str]) -> dict[str, str]:
    """By name a short one, of at most MOST_LABEL characters, that no other of them has: of a template's instances
    those arguments that not all of them have.

    >>> list(labels(["_Z1fILi128E6__halfEvv", "_Z1fILi64E6__halfEvv", "g"]).values())
    ['f<128>', 'f<64>', 'g']
    """
    found = {name: demangled(name) for name in dict.fromkeys(names)}
    common: dict[str, Counter[str]] = {}
    for name, leaves in found.values():
        counted = Counter(leaves)
        common[name] = common[name] & counted if name in common else counted
    made: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for mangled, (name, leaves) in found.items():
        own = _beyond(leaves or (), common[name])
        label = _inner(name)
        if own or (leaves and not label.endswith(">")):
            label += f"<{_short(', '.join(own) or '...', MOST_LABEL - 2 - len(label))}>"
        taken[label] += 1
        made[mangled] = label if taken[label] == 1 else f"{label}#{taken[label]}"
    return made


def _beyond(leaves: Iterable[str], common: Counter[str]) -> list[str]:
    """Those of which the common ones are taken away, in their order."""
    left = common.copy()
    own = []
    for leaf in leaves:
        if left[leaf]:
            left[leaf] -= 1
        else:
            own.append(leaf)
    return own


def _inner(name: str) -> str:
    """Without outer scopes where it is long."""
    while len(name) > MOST_NAME and "::" in name.partition("<")[0]:
        name = name.partition("::")[2]
    return _short(name, MOST_NAME)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
