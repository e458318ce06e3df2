"""The steps of a deployment, in order. All steps can be repeated and keep existing resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from infra.cloud import bootstrap, release, services
from infra.cloud.errors import CommandFailed
from shared.core.errors import CarrelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infra.cloud.cloud import Cloud


class DeployStep(NamedTuple):
    """A step of a deployment.

    Attributes:
        title: The line that the terminal shows during the step.
        run: Runs the step.
    """

    title: str
    run: Callable[[Cloud], object]


def _stage(cloud: Cloud) -> None:
    cloud.stage(cloud.dist)


_UPLOAD_BUNDLES: Final = DeployStep("upload new bundles", release.upload_bundles)
_DEPLOY_FUNCTIONS: Final = DeployStep("deploy what changed, and test it", release.release)
FULL_DEPLOY: Final = (
    DeployStep("enable Google's APIs", services.enable_services),
    DeployStep("check billing", services.require_billing),
    DeployStep("prepare the bucket", bootstrap.ensure_bucket),
    DeployStep("stage the functions' bundles", _stage),
    _UPLOAD_BUNDLES,
    DeployStep("create databases, indexes and secrets", bootstrap.create_prerequisites),
    DeployStep("set the values of secrets", bootstrap.fill_secrets),
    _DEPLOY_FUNCTIONS,
)
"""The steps of `carrel deploy`, which a person runs at least once. Builds run the two plans below
instead."""
INDEXES_ONLY: Final = (DeployStep("create databases and indexes", bootstrap.create_databases),)
"""The first plan of a build. New indexes are ready before the functions that need them are
deployed."""
RELEASE_ONLY: Final = (_UPLOAD_BUNDLES, _DEPLOY_FUNCTIONS)
"""The second plan of a build, which deploys bundles that are already staged."""


def run_steps(cloud: Cloud, steps: Sequence[DeployStep]) -> None:
    """Run steps in order.

    Raises:
        CommandFailed: A step failed. The message names the step and says what to do.
    """
    for number, step in enumerate(steps, 1):
        cloud.echo(f"[{number}/{len(steps)}] {step.title} ...")
        try:
            step.run(cloud)
        except (CommandFailed, CarrelError) as error:
            raise CommandFailed(
                f"Step {number} of {len(steps)} failed: {step.title}.\n{error.message}\n"
                "Fix the problem and run the same command again. It continues where it stopped."
            ) from error
