"""Which command helps, by what an error is about: the library says what is wrong, the command line what to type."""

from __future__ import annotations

from tcprobe.errors import AmbiguousError, TcprobeError, UsageError

HINTS = {
    "no table": "`tcprobe why-not {id} --arch {arch}` says more.",
    "no folder": "`tcprobe run --results {folder}` makes it.",
    "no registers": "`tcprobe lower {id}` says what it becomes, `tcprobe list {id} --json` what is documented.",
    "a move": "`tcprobe where` and `show` say which lane holds what.",
    "behind": "`tcprobe show` says where its elements are; for all else name {id}.",
    "names": "See `tcprobe list`.",
    "numbers": "Numbers go with --row and --col, or --lane and --i.",
    "opcodes": "`tcprobe lower` lists what they become.",
    "copies in bulk and by tensor maps": "See `tcprobe path ... --fill tma` and `tcprobe swizzle table SWIZZLE_128B`.",
    "copies from global into shared memory": "See `tcprobe banks --with cp.async.16` and `tcprobe path FRAGMENT`.",
    "accesses to shared memory": "See `tcprobe banks --with ld.shared.b64`.",
    "loads": "See `tcprobe load FRAGMENT`.",
    "exchanges between lanes": "See `tcprobe convert` and `tcprobe reduce`.",
}


def hint(error: TcprobeError) -> str:
    """What to type, one line; empty where nothing is known."""
    if isinstance(error, AmbiguousError):
        return "Say more of the name" + (":" if error.commands else ".")
    return HINTS.get(error.topic, "").format(**error.about) if isinstance(error, UsageError) else ""
