"""What a fleet by Dask is tested with: a scheduler, and workers with an emulated GPU.

python fleet_machine.py scheduler                 prints its address
python fleet_machine.py ADDRESS ARCH MODE         a worker; MODE: fine; dying (with its first run); slow; lying
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import fleet_gpu
from distributed import Scheduler, Worker

from tcprobe.run import fleet, merge
from tcprobe.store import documents

single_run = fleet.single_run


def dying(*given):
    del given
    os._exit(9)


def slow(*given):
    time.sleep(1.5)
    return single_run(*given)


def lying(*given):
    """The true report with two lines of a table's layout exchanged, and every checksum made anew."""
    answer = json.loads(single_run(*given))
    body = json.loads(answer["report"])
    for name, inner in body["files"].items():
        if "live" in name or "sass" in name:
            plain = {key: value for key, value in inner.items() if key not in ("kind", "schema", "sha256")}
            plain["arch"] = "sm_70"
            body["files"][name] = json.loads(documents.seal(inner["kind"], plain, inner["schema"]))
    plain = {key: value for key, value in body.items() if key not in ("kind", "schema", "sha256")}
    return json.dumps(answer | {"report": documents.seal(merge.KIND, plain)})


async def serve():
    if sys.argv[1] == "scheduler":
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
            print(scheduler.address, flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until whoever started it ends
        return
    address, name, mode = sys.argv[1:]
    fleet_gpu.use(name)
    fleet.PROGRAM = (sys.executable, fleet_gpu.__file__, "program", name)
    fleet.single_run = globals().get(mode, single_run)
    async with Worker(address, nthreads=1, name=f"{name} {mode}", dashboard=False) as worker:
        print(worker.address, flush=True)
        await worker.finished()


if __name__ == "__main__":
    asyncio.run(serve())
