"""Where what a session works with came from: its labels, and the sources of argument values."""

from agent.provenance.labels import carries_out, labels_in, labels_of, labels_of_results
from agent.provenance.marks import (
    ATTACHED,
    NOTE,
    ORDERED,
    RAW,
    REFUSED,
    USAGE,
    attached_to,
    between_marks,
    marked,
    unmarked,
    users_words,
)
from agent.provenance.sources import (
    Part,
    Source,
    after_an_edit,
    from_the_record,
    trace,
    values_of,
)
from agent.provenance.suspicion import suspicions, suspicious_in

__all__ = [
    "ATTACHED",
    "NOTE",
    "ORDERED",
    "RAW",
    "REFUSED",
    "USAGE",
    "Part",
    "Source",
    "after_an_edit",
    "attached_to",
    "between_marks",
    "carries_out",
    "from_the_record",
    "labels_in",
    "labels_of",
    "labels_of_results",
    "marked",
    "suspicions",
    "suspicious_in",
    "trace",
    "unmarked",
    "users_words",
    "values_of",
]
