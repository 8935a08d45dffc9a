"""A user of your own that also listens to the suite's events.

locust -f locustfiles/custom_example.py --headless --scenario demo
"""

import logging
from typing import Any

from locust import events

from scenarios.clients.call import LLMRequest, TokenEvent
from scenarios.users import LLMUser

logger = logging.getLogger(__name__)

SLOW_GAP_MS = 500.0
last_arrival_ms: dict[str, float] = {}


@events.llm_token.add_listener
def warn_of_a_stall(request_id: str, event: TokenEvent, **_: Any) -> None:
    """Every token event as it arrives; arrival_ms is since the request was sent."""
    gap_ms = event.arrival_ms - last_arrival_ms.get(request_id, event.arrival_ms)
    last_arrival_ms[request_id] = event.arrival_ms
    if gap_ms > SLOW_GAP_MS:
        logger.warning("%s: %.0f ms before token event %s", request_id, gap_ms, event.index)


@events.llm_request_finished.add_listener
def forget(request_id: str, **_: Any) -> None:
    """Every request once, whatever became of it; what was measured comes as `result`."""
    last_arrival_ms.pop(request_id, None)


class SupportDeskUser(LLMUser):
    """Sends questions of its own instead of the scenario's workload."""

    api = "chat"

    def call_engine(self) -> None:
        """One question; `send` records it like every other request."""
        self.send(
            LLMRequest(prompt=f"Question {self.number}: where is my parcel?", max_tokens=32, length_class="support")
        )
