"""Streaming legacy completions against any OpenAI-compatible engine.

locust -f locustfiles/openai_completions.py --scenario mixed-chat -H http://gpu:8000
"""

from scenarios.users import LLMUser


class CompletionsUser(LLMUser):
    """POST /v1/completions, one request after the other."""

    api = "completions"
