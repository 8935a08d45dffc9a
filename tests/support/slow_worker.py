"""Starts a Locust worker that takes a second between connecting to the master and Locust's init event."""

import locust.main
from gevent import sleep
from locust.env import Environment


def main() -> None:
    """Be Locust, but slow to listen."""
    create = Environment.create_worker_runner

    def create_slowly(self, master_host, master_port):
        runner = create(self, master_host, master_port)
        sleep(1.0)
        return runner

    Environment.create_worker_runner = create_slowly  # type: ignore[method-assign]
    locust.main.main()


if __name__ == "__main__":
    main()
