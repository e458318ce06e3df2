"""Erases workspaces that have not been used for long, or that a user wants erased.

While a workspace is being erased, calls cannot upload to it. Documents are deleted before parts,
and parts before answers: the commits of an upload or an answer fail if the parts no longer exist,
so a concurrent call cannot store anything after its deletion.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.core.setting_groups import KeyInfoSettings
from shared.firestore.idempotency_records import about_query
from shared.firestore.retention import Dependents, Retention
from shared.workspaces.repository import DOCUMENTS, PARTS, TOUCH_INTERVAL, WORKSPACES

if TYPE_CHECKING:
    from shared.firestore.documents import Reference
    from shared.firestore.queries import Query


def _answers_query(workspace: Reference) -> Query:
    """Build the query for the stored results of calls that used a workspace."""
    user_path, _, _ = workspace.collection.rpartition("/")
    return about_query(user_path, f"{WORKSPACES}/{workspace.id}")


def make_retention(days: int) -> Retention:
    """Make the retention of workspaces that have not been used for some days.

    The stored time may be older than the last use, by up to `TOUCH_INTERVAL`.
    """
    return Retention(
        title="workspaces since their last use, with their texts",
        collection=WORKSPACES,
        in_group=True,
        since="touched_at",
        duration=timedelta(days=days) + TOUCH_INTERVAL,
        dependents=(
            Dependents.below(DOCUMENTS, 100),
            Dependents.below(PARTS, 8),
            Dependents(name="answers", query=_answers_query, commit_size=8),
        ),
    )


UNUSED_WORKSPACES: Final = make_retention(KeyInfoSettings.model_fields["materials_days"].default)
"""The retention unless the setting `MATERIALS_DAYS` is another."""
