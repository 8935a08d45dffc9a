"""Ctrl-C ends the run, and nothing else.

Python raises KeyboardInterrupt in whatever greenlet runs at that moment. In a busy process that is a user, who
would lose a request, or the writer of the run folder, without whom the run never ends.
"""

import signal

import gevent


def for_main_only() -> None:
    """From now on SIGINT raises KeyboardInterrupt in the main greenlet, where Locust waits for it."""
    gevent.signal_handler(signal.SIGINT, _raise_in_main)


def _raise_in_main() -> None:
    gevent.get_hub().handle_system_error(KeyboardInterrupt, KeyboardInterrupt())
