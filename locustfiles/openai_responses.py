"""Streaming responses (the Responses API) against any OpenAI-compatible engine.

locust -f locustfiles/openai_responses.py --scenario mixed-chat -H http://gpu:8000
"""

from scenarios.users import LLMUser


class ResponsesUser(LLMUser):
    """POST /v1/responses, one request after the other."""

    api = "responses"
