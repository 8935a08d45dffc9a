"""A model of Triton over gRPC: TensorRT-LLM's or vLLM's interface, told apart by the server's own metadata.

locust -f locustfiles/triton_grpc.py --scenario mixed-chat -H grpc://gpu:8001 --set engine.model=ensemble
"""

from scenarios.users import LLMUser


class TritonGrpcUser(LLMUser):
    """ModelStreamInfer, one request after the other."""

    api = "triton-grpc"
