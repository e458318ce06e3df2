"""The steps of a deployment, in order. Each can be done again: what is there already is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from infra.cloud import foundation, release, services
from infra.cloud.failures import NotDone
from shared.core.errors import CarrelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infra.cloud.cloud import Cloud


class Step(NamedTuple):
    """A step.

    Attributes:
        name: What it does, as the terminal shows it.
        work: Does it.
    """

    name: str
    work: Callable[[Cloud], object]


def _stage(cloud: Cloud) -> None:
    cloud.stage(cloud.dist)


_UPLOAD: Final = Step("upload the bundles that are new", release.upload)
_RELEASE: Final = Step("deploy what changed, and test it", release.release)
EVERYTHING: Final = (
    Step("switch on Google's APIs", services.enable_services),
    Step("see that the project is paid for", services.check_billing),
    Step("prepare the bucket", foundation.prepare_bucket),
    Step("stage the functions' bundles", _stage),
    _UPLOAD,
    Step("make databases, indexes and secrets", foundation.make_foundation),
    Step("give secrets their values", foundation.fill_secrets),
    _RELEASE,
)
INDEXES: Final = (Step("make databases and indexes", foundation.make_databases),)
RELEASE: Final = (_UPLOAD, _RELEASE)
"""INDEXES and RELEASE are what a build does, once somebody has deployed by hand."""


def go(cloud: Cloud, steps: Sequence[Step]) -> None:
    """Do the steps.

    Raises:
        NotDone: One failed; the message says which, and what to do.
    """
    for number, step in enumerate(steps, 1):
        cloud.say(f"[{number}/{len(steps)}] {step.name} ...")
        try:
            step.work(cloud)
        except (NotDone, CarrelError) as error:
            raise NotDone(
                f"Step {number} of {len(steps)} failed: {step.name}.\n{error.message}\n"
                "Run the same command again when that is mended: it goes on where it stopped."
            ) from error
