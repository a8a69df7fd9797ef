"""The workers of a Dask scheduler as a crew. The only file that imports distributed.

A call goes to one worker by name: the fleet decides which machine makes which job. Functions travel as
their names in this package, which every worker needs installed; arguments and answers are texts and lists of texts.
Dask trusts its peers, so use a scheduler of your own (its configuration has TLS).
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from queue import Empty, Queue
from typing import Any

from tcprobe.errors import EnvironmentUnfitError, UsageError
from tcprobe.run.fleet import LostMachineError

ADDRESS = re.compile(r"(tcp|tls|ws|wss)://[^\s/]{1,255}:[0-9]{1,5}")
TO_FETCH = 120.0  # seconds for an answer to come from where it lies


class DaskCrew:
    """Open until `close`; UsageError for a text that is no address, EnvironmentUnfitError if no scheduler answers."""

    def __init__(self, address: str, limit: float) -> None:
        if not ADDRESS.fullmatch(address):
            raise UsageError(f"{address!r} is not the address of a Dask scheduler, such as tcp://127.0.0.1:8786.")
        try:
            from distributed import Client
        except ImportError:
            raise EnvironmentUnfitError("a fleet needs Dask: pip install 'tcprobe[fleet]'.") from None
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # which tells of every worker that is lost
        try:
            self._client: Any = Client(address, timeout=limit, set_as_default=False, name="tcprobe")
        except (OSError, ValueError) as error:
            words = str(error).partition("\n")[0] or type(error).__name__
            raise EnvironmentUnfitError(f"no Dask scheduler answers at {address}: {words}.") from None
        self._futures: dict[str, Any] = {}
        self._done: Queue[str] = Queue()

    def close(self) -> None:
        """Disconnect and cancel open calls; the scheduler goes on."""
        for ticket in list(self._futures):
            self.drop(ticket)
        self._client.close(timeout=5)

    def slots(self) -> Mapping[str, int]:
        """Workers by address, and how many threads each has; EnvironmentUnfitError if the scheduler is gone."""
        try:
            return {str(address): int(threads) for address, threads in self._client.nthreads().items()}
        except (OSError, TimeoutError) as error:
            raise EnvironmentUnfitError(
                f"the connection to the Dask scheduler was lost: {error or type(error).__name__}."
            ) from None

    def give(self, address: str, work: Callable[..., str], *arguments: object) -> str:
        """Have a worker call a function."""
        ticket = f"tcprobe-{uuid.uuid4().hex}"
        here = {"workers": [address], "allow_other_workers": False, "retries": 0, "pure": False}
        future = self._futures[ticket] = self._client.submit(work, *arguments, key=ticket, **here)
        future.add_done_callback(lambda _: self._done.put(ticket))
        return ticket

    def answers(self, seconds: float) -> Iterator[tuple[str, object]]:
        """Finished tickets with their answers, after at most `seconds`."""
        with suppress(Empty):
            ticket = self._done.get(timeout=seconds)
            while True:
                if ticket in self._futures:  # it was not taken back meanwhile
                    yield ticket, self._answer(self._futures[ticket])
                    self.drop(ticket)
                ticket = self._done.get_nowait()

    def _answer(self, future: Any) -> object:
        """The text that a worker answered, or a LostMachineError: the worker has no tcprobe, or was lost."""
        try:
            return future.result(timeout=TO_FETCH)
        except Exception as error:  # whatever the worker raised, or Dask on its behalf
            return LostMachineError(f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}")

    def drop(self, ticket: str) -> None:
        future = self._futures.pop(ticket, None)
        if future is not None:
            future.release()
