"""Printed code under the name, and in the namespace, that a user chose.

>>> from tcprobe.code.scope import in_namespace
>>> print(in_namespace("// a comment\\nstruct x {};\\n", "mine"))
// a comment
namespace mine {
struct x {};
}  // namespace mine
<BLANKLINE>

What headers share is there once by its guard, which therefore tells namespaces apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256

from tcprobe.code.names import FUNCTION, NAMESPACE, require_legal
from tcprobe.errors import UsageError
from tcprobe.text import quoted

OWN = "tcprobe"  # the namespace of headers that have one anyway
_GUARD = re.compile(r"^#ifndef (TCPROBE_\w+)\n#define \1$", re.MULTILINE)
_ONCE = re.compile(r"#ifndef (TCPROBE_[0-9a-f]{12})$", re.MULTILINE)
_TOP = re.compile(r"(?:(?://|#pragma|#include).*\n|\n)*")


def in_namespace(text: str, namespace: str | None) -> str:
    """The code in a namespace, which may be nested (a::b); or without one. UsageError if it is not a namespace."""
    if not namespace:
        return text
    text = guard_in(text, namespace)
    if re.search(rf"^namespace {OWN} ", text, re.MULTILINE):
        return re.sub(rf"(namespace ){OWN}\b|\b{OWN}(::)", rf"\g<1>{namespace}\2", text)
    top = _TOP.match(text)
    assert top
    inside = text[top.end() :].rstrip("\n")
    return f"{top[0]}namespace {namespace} {{\n{inside}\n}}  // namespace {namespace}\n"


def guard_in(text: str, namespace: str) -> str:
    """The code with guards of its own for a namespace; UsageError if it is not a namespace."""
    for part in namespace.split("::"):
        require_legal(part, NAMESPACE)
    own = sha256(namespace.encode()).hexdigest()[:8]  # a::b and a_b are two
    return _GUARD.sub(rf"#ifndef \1_{own}\n#define \1_{own}", text)


def rename(text: str, old: str, name: str | None) -> str:
    """The code with `name` in the place of its `old` name, and of the beginning of names that continue `old`_.

    UsageError where it is not a name, or the code does not have the other.
    """
    if not name:
        return text
    require_legal(name, FUNCTION, re.findall(r"\w+", text))
    named = re.compile(rf"\b{old}(?=\b|_)")
    if not old or not named.search(text):
        raise UsageError(f"{quoted(name)} renames nothing: this code has no name.")
    return "".join(_own_guard(part, named.sub(name, part)) for part in _parts(text))


def _parts(text: str) -> Iterator[str]:
    """The text cut where something that is there once begins and ends."""
    part, depth = "", 0
    for line in text.splitlines(keepends=True):
        if _ONCE.match(line) and not depth:
            yield part
            part, depth = line, 1
            continue
        part += line
        depth += depth and (line.startswith("#if") - line.startswith("#endif"))
        if line.startswith("#endif") and not depth:
            yield part
            part = ""
    yield part


def _own_guard(part: str, code: str) -> str:
    """The code with a guard of its own if it is no longer what the part was."""
    guard = _ONCE.match(part)
    if code == part or not guard:
        return code
    return code.replace(guard[1], f"TCPROBE_{sha256(code.encode()).hexdigest()[:12]}")
