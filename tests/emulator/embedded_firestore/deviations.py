"""Where the emulator's answers are not the embedded Firestore's, each with the reason."""

from collections.abc import Callable
from typing import Final

from tests.support.firestore_requests import Aggregation, Commit, ListDocuments, Normal, Request

Deviation = Callable[[Request, Normal, Normal, str], bool]
"""Whether a difference is known: by the request, the emulator's answer, the embedded one's, and
the emulator's error."""

REFUSED: Final = ("error", "INVALID_ARGUMENT")


def repeats_a_document(request: Request, expected: Normal, actual: Normal, message: str) -> bool:
    """The emulator joins writes to one document in one commit before it checks preconditions.

    So it refuses some, and applies a second deletion that requires a time of update. Firestore
    documents no such rule: the writes of a commit apply in order.
    """
    if not isinstance(request, Commit):
        return False
    if expected == REFUSED:
        return message.startswith("Cannot collapse mutations") or "in the same request" in message
    conditional = [write.path for write in request.writes if write.precondition]
    has_repetition = len(set(conditional)) < len(conditional)
    return has_repetition and actual == ("error", "FAILED_PRECONDITION")


def aggregates_fields(request: Request, expected: Normal, _: Normal, __: str) -> bool:
    """The emulator refuses sums and averages of projections and of queries ordered by name.

    They need indexes that Firestore has not. Nothing is wrong with the answer without them.
    """
    return (
        isinstance(request, Aggregation)
        and expected == REFUSED
        and any(name != "count" for name, _ in request.aggregations)
    )


def descends_by_name(_: Request, expected: Normal, __: Normal, message: str) -> bool:
    """The emulator refuses an order by name alone that descends, for want of an index.

    Firestore has it where an index is defined, and the tested databases have any index.
    """
    return expected == ("error", "FAILED_PRECONDITION") and "descending key scans" in message


def lists_a_missing_document(request: Request, expected: Normal, actual: Normal, _: str) -> bool:
    """The emulator lists some deleted documents with a time of update, which none of them has."""
    return (
        isinstance(request, ListDocuments)
        and request.show_missing
        and [_without_time_if_missing(document) for document in expected] == list(actual)
    )


def _without_time_if_missing(document: Normal) -> Normal:
    match document:
        case (path, fields, None, _):
            return path, fields, None, None
    return document


def counts_by_name_beside_an_inequality(
    request: Request, _: Normal, actual: Normal, __: str
) -> bool:
    """The emulator aggregates queries that order by name before the field of an inequality.

    It refuses the same queries of documents, as Firestore does.
    """
    return (
        isinstance(request, Aggregation)
        and actual == REFUSED
        and [path for path, _ in request.query.orders] == ["__name__"]
    )


DEVIATIONS: Final[dict[str, Deviation]] = {
    "several writes to one document": repeats_a_document,
    "times of missing documents": lists_a_missing_document,
    "descending order by name": descends_by_name,
    "aggregations in the order of names": counts_by_name_beside_an_inequality,
    "sums and averages beside names and projections": aggregates_fields,
}
