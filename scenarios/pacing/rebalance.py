"""Moves users between workers when workers come, go or come back.

Locust does this by itself in most cases. Its dispatcher forgets to note that a rebalancing has ended, and after
the first one a worker that comes back would keep its old users beside those that took its place.
"""

from locust.runners import STATE_RUNNING, MasterRunner


def rebalance_if_due(runner: MasterRunner) -> None:
    """Spread the users again if the set of workers has changed since they were spread."""
    dispatcher = runner._users_dispatcher  # noqa: SLF001  # Locust has no public way to ask
    due = dispatcher is not None and dispatcher._rebalance  # noqa: SLF001
    if due and runner.state == STATE_RUNNING and runner.spawning_completed:
        runner.start(runner.target_user_count, runner.spawn_rate)
