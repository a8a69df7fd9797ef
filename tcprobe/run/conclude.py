"""From a reading to a measurement: what the experiment concludes, with its evidence."""

from __future__ import annotations

from collections.abc import Mapping

from tcprobe.probes.experiment import Context, Experiment, Reading
from tcprobe.store.measurement import Measurement


def conclude(
    experiment: Experiment, reading: Reading, context: Context, method: str, provenance: Mapping[str, str]
) -> Measurement:
    """The measurement that `reading` of `experiment` amounts to.

    ProbeError where the reading is no layout or no matrix product, or contradicts what is known.
    """
    conclusion = experiment.conclude(reading, context)
    return Measurement(
        experiment.id, context.device.name, method, "measured", provenance, conclusion.tables, conclusion.numbering,
        conclusion.structure, conclusion.unread,
    )  # fmt: skip
