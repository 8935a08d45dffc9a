"""A model of Triton over HTTP: TensorRT-LLM's or vLLM's interface, told apart by the server's own metadata.

locust -f locustfiles/triton_generate.py --scenario mixed-chat -H http://gpu:8000 --set engine.model=ensemble
"""

from scenarios.users import LLMUser


class TritonGenerateUser(LLMUser):
    """POST /v2/models/MODEL/generate_stream, one request after the other."""

    api = "triton-generate"
