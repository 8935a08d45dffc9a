"""Streaming chat completions against any OpenAI-compatible engine.

locust -f locustfiles/openai_chat.py --scenario mixed-chat -H http://gpu:8000
"""

from scenarios.users import LLMUser


class ChatUser(LLMUser):
    """POST /v1/chat/completions, one request after the other."""

    api = "chat"
