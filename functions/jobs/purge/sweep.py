"""The erasure of all documents of a kind that are no longer kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from shared.firestore.retention import Erasure
from shared.pipeline.worker import run_isolated

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.firestore.documents import Document, Reference
    from shared.firestore.retention import Retention
    from shared.firestore.writes import Write
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

    BuildLastWrites = Callable[[Context, Document], Awaitable[Sequence[Write]]]

PAGE_SIZE: Final = 200
"""The number of documents that one query reads."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The erasure of all documents of a kind that are no longer kept.

    Attributes:
        build_last_writes: What the last commit of an erasure writes instead of only deleting the
            document. Without any writes, the document stays for now.
    """

    retention: Retention
    build_last_writes: BuildLastWrites | None = None

    @property
    def name(self) -> str:
        """The collection of the documents."""
        return self.retention.collection

    async def run(self, ctx: Context, budget: Budget, report: Report) -> None:
        """Erase the documents one by one, beginning with those that a killed run left half erased.

        One that fails is reported, and does not stop the others.
        """
        async for page in ctx.database.iterate(
            self.retention.build_due_query(ctx.clock()), PAGE_SIZE
        ):
            for document in page:
                work = self._erase(document.reference, ctx, budget, report)
                await run_isolated(f"{self.name}/{document.id}", work, ctx, report)
                if budget.spent:
                    report.finished = False
                    return

    async def count(self, ctx: Context) -> int:
        """Count the documents that are no longer kept. Costs one round trip."""
        return await ctx.database.count(self.retention.build_due_query(ctx.clock()))

    async def _erase(
        self, reference: Reference, ctx: Context, budget: Budget, report: Report
    ) -> None:
        """Erase a document if it is still due. If the time runs out, the next run goes on."""
        erasure = Erasure(ctx.database, self.retention, reference, ctx.clock())
        build_last_writes = self.build_last_writes and partial(self.build_last_writes, ctx)
        async for name, count in erasure.complete(build_last_writes):
            report.counts[name] += count
            if name == self.name:
                budget.progress(1)
            if budget.spent:
                return
