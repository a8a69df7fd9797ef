"""The process that imports a package and writes down what it states: `child ADAPTER SECONDS FILE VERSION_FILE`.

The package is outside code: its time and memory are bounded, its home is a temporary folder, and it sees no GPU.
"""

from __future__ import annotations

import itertools
import os
import sys
from importlib import metadata
from pathlib import Path

MOST_MEMORY = 12 << 30  # of address space; PyTorch takes 4 GB


def main() -> None:
    """Write the statements of an adapter as JSON."""
    name, seconds, path, named = sys.argv[1:]
    _bound(int(seconds))
    home = str(Path(path).parent)
    os.environ.update(HOME=home, XDG_CACHE_HOME=home, CUDA_VISIBLE_DEVICES="", TVM_FFI_DISABLE_TORCH_C_DLPACK="1")
    import msgspec

    from tcprobe.audit.adapters import NAMES
    from tcprobe.audit.statement import MOST_STATEMENTS
    from tcprobe.plugins import load

    adapter = load("tcprobe.audit.adapters", name, NAMES)
    statements = list(itertools.islice(adapter.statements(), MOST_STATEMENTS + 1))
    Path(path).write_bytes(msgspec.json.encode(statements))
    try:
        version = metadata.version(adapter.PACKAGE)
    except metadata.PackageNotFoundError:
        version = "?"
    Path(named).write_text(version, encoding="utf-8")


def _bound(seconds: int) -> None:
    """Limit this process: CPU seconds and address space."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = MOST_MEMORY if hard == resource.RLIM_INFINITY else min(hard, MOST_MEMORY)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


if __name__ == "__main__":
    main()
