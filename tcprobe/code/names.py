r"""Which names generated code may have: one rule for C++, CUDA and Python, for names of users and those made here.

>>> from tcprobe.code.names import FUNCTION, identifier, require_legal
>>> require_legal("causal_mask", FUNCTION), identifier("16x8 Sw<3,4,3>_tma")
('causal_mask', 'n16x8_Sw_3_4_3_tma')

A name that compiles in one place is a macro or a keyword in another, so what any of the languages or CUDA's headers
take is refused everywhere.

Printed code under the name, and in the namespace, that a user chose.

>>> from tcprobe.code.names import in_namespace
>>> print(in_namespace("// a comment\nstruct x {};\n", "mine"))
// a comment
namespace mine {
struct x {};
}  // namespace mine
<BLANKLINE>

What headers share is there once by its guard, which therefore tells namespaces apart.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

from tcprobe.errors import UsageError
from tcprobe.text import quoted

MOST = 255


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CPP = _words("""
    alignas alignof asm auto bool break case catch char char8_t char16_t char32_t class concept const consteval
    constexpr constinit const_cast continue contract_assert co_await co_return co_yield decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept nullptr operator private protected public register reinterpret_cast requires restrict return
    short signed sizeof static static_assert static_cast struct switch synchronized template this thread_local throw
    true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while
""")
ALTERNATIVE = _words("and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq")
BUILTIN = _words("threadIdx blockIdx blockDim gridDim warpSize")
# types, functions and variables of the headers that every CUDA program reads, and macros that are not all capitals
TAKEN = _words("""
    main std alloca assert assert_perror daylight environ errno issubnormal linux math_errhandling offsetof signgam
    stderr stdin stdout strdupa strndupa timezone tzname unix va_arg va_copy va_end va_start
    dim3 half half2 nv_bfloat16 nv_bfloat162 uchar ushort uint ulong
""")
_TYPE = re.compile(
    r"(u?(char|short|int|long|longlong)|float|double)[1-4]|(cuda[A-Z]|CU[A-Za-z])\w*|u?int(_fast|_least)?(8|16|32|64|ptr|max)_t|"
    r"(s?size|ptrdiff|nullptr|max_align|wint|time|clock|clockid|timer|off|pid|l?l?div|float|double|fpos|va|mbstate)_t"
)
_MACRO = re.compile(r"[A-Z][A-Z0-9_]+|(M|L|P)_\w+|SNAN\w+|TCPROBE_\w+|(be|le)(16|32|64)toh|hto[bl]e(16|32|64)")
_RESERVED = re.compile(r"_.*|.*__.*")
_REASONS: tuple[tuple[Callable[[str], object], str], ...] = (
    (CPP.__contains__, "a keyword of C++"),
    (ALTERNATIVE.__contains__, "an operator of C++"),
    (keyword.iskeyword, "a keyword of Python"),
    (BUILTIN.__contains__, "a variable of CUDA"),
    (TAKEN.__contains__, "a name that C++ or CUDA has taken"),
    (_TYPE.fullmatch, "a type of C++ or CUDA"),
    (_RESERVED.fullmatch, "reserved by C++: it begins with _ or has two of them together"),
    (_MACRO.fullmatch, "like a macro's: it has capitals alone, or a macro's beginning"),
)


DECLARED = "declared by CUDA or C++ for every program, in which a second meaning does not compile"
FUNCTION, NAMESPACE = "is not a name of a function", "is not a namespace"
ARGUMENT = "is one of the names that cannot be arguments"


def require_legal(name: str, refusal: str, used: Iterable[str] = ()) -> str:
    """The name that a user gives; UsageError with `refusal` and the reason where it is not legal, or among `used`."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or len(name) > MOST:
        raise UsageError(f"{quoted(name)} {refusal}: letters, digits and _ alone, at most {MOST}, no digit first.")
    reason = _reason(name) or (refusal != ARGUMENT and name in taken() and DECLARED)
    if reason or name in used:
        raise UsageError(f"{quoted(name)} {refusal}: {reason or 'the code has another use for it'}.")
    return name


def identifier(text: str) -> str:
    """A text, such as the id of a fragment or an instruction, as an identifier: the same for the same text."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return name if name[:1].isalpha() and not is_ruled_out(name) and name not in taken() else f"n{name}"


def is_ruled_out(name: str) -> bool:
    """Whether a rule refuses an identifier everywhere, without what headers declare."""
    return _reason(name) is not None


@cache
def taken() -> frozenset[str]:
    """What CUDA's headers and NVRTC declare outside of namespaces, which `tools/taken_names.py` tries one by one.

    An argument may have such a name: it hides the other inside one function.
    """
    return frozenset(Path(__file__).with_name("taken.txt").read_text("ascii").split())


def _reason(name: str) -> str | None:
    return next((words for holds, words in _REASONS if holds(name)), None)


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
