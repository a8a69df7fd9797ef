"""The names of the kernels that a call launches, where PyTorch's profiler (CUPTI) can say them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

COPIES = ("Memcpy", "Memset")


def kernel_names(run: Callable[[], Any]) -> tuple[str, ...] | None:
    """In the order of their start; None where there is no profiler."""
    if importlib.util.find_spec("torch") is None:
        return None
    try:
        import torch
        from torch.profiler import ProfilerActivity, profile

        if not torch.cuda.is_available():
            return None
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            run()
            torch.cuda.synchronize()
        found = [event for event in seen.events() or [] if str(getattr(event, "device_type", "")).endswith("CUDA")]
        names = [event.name for event in sorted(found, key=lambda event: event.time_range.start)]
    except Exception:  # a profiler that another one keeps out, or that this driver does not let count, is none
        return None
    return tuple(dict.fromkeys(name for name in names if not name.startswith(COPIES))) or None
