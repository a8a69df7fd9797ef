"""From a reading to a finding: what the experiment concludes, with its evidence."""

from __future__ import annotations

from collections.abc import Mapping

from tcprobe.errors import DataError, ProbeError
from tcprobe.layout.structure import anchor, read_slots
from tcprobe.layout.table import StructureHash
from tcprobe.probes.experiment import Conclusion, Context, Dialogue, Experiment, Readout
from tcprobe.store import kinds
from tcprobe.store.finding import Finding
from tcprobe.store.measurement import Measurement


def conclude(
    experiment: Experiment | Dialogue, reading: Readout, context: Context, method: str, provenance: Mapping[str, str]
) -> Measurement | Finding:
    """The finding of `experiment` from its `reading`.

    ProbeError if the reading is no layout or no matrix product, contradicts known tables, or cannot be true.
    """
    if isinstance(experiment, Dialogue):
        body = experiment.conclude(reading, context)
        finding = Finding(experiment.kind, experiment.id, context.device.name, method, "measured", provenance, body)
        try:
            kinds.check(finding)
        except DataError as error:
            raise ProbeError(str(error)) from None
        return finding
    conclusion = experiment.conclude(reading, context)
    return Measurement(
        experiment.id,
        context.device.name,
        method,
        "measured",
        provenance,
        conclusion.tables,
        conclusion.numbering,
        _with_anchor(conclusion),
        conclusion.unread,
    )


def _with_anchor(conclusion: Conclusion) -> StructureHash | None:
    """The structure tensor, with the hash of the numbering that it leaves open."""
    if conclusion.structure is None:
        return None
    tables = {o: read_slots(table, conclusion.unread.get(o)) for o, table in conclusion.tables.items()}
    return conclusion.structure._replace(anchor=anchor(tables))
