"""Work that a second process does beside this one: a part of a large set of texts, for machines with two cores.

>>> from tcprobe.system.beside import beside
>>> texts = beside(lambda: {"a": "1"})
>>> texts()
{'a': '1'}
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress

Texts = Mapping[str, str]


def beside(act: Callable[[], Texts]) -> Callable[[], Texts]:
    """Begin `act` in a copy of this process; what comes back waits for its texts.

    It is run here, when its texts are asked for, where there can be no copy (no fork, other threads), and where the
    copy did not bring them: so that what it raises is raised here.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1 or (os.cpu_count() or 1) < 2:
        return act
    receive, send = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads that are not Python's
        child = os.fork()
    if not child:
        _answer(act, receive, send)
    os.close(send)
    return lambda: _receive(child, receive, act)


def _answer(act: Callable[[], Texts], receive: int, send: int) -> None:
    """The copy: its texts into the pipe, nothing else; it never returns."""
    code = 1
    try:
        os.close(receive)
        with os.fdopen(send, "wb") as stream:
            stream.write(json.dumps(dict(act()), ensure_ascii=False).encode("utf-8", "surrogatepass"))
        code = 0
    except BaseException:  # the other process says what is wrong, when it does the same
        pass
    finally:
        os._exit(code)


def _receive(child: int, receive: int, act: Callable[[], Texts]) -> Texts:
    with os.fdopen(receive, "rb") as stream:
        raw = stream.read()
    code = 1
    with suppress(ChildProcessError):
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        return act()
    texts: dict[str, str] = json.loads(raw.decode("utf-8", "surrogatepass"))
    return texts
