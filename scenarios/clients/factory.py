"""Clients by the name of their API."""

from scenarios.clients.access import DEFAULT_ACCESS, EngineAccess
from scenarios.clients.call import Client
from scenarios.clients.openai_client import API_PATHS, OpenAIClient
from scenarios.clients.triton_generate import TritonGenerateClient
from scenarios.clients.triton_model import TritonClient

TRITON_APIS = ("triton-generate", "triton-grpc")


def build_client(api: str, base_url: str, model: str, access: EngineAccess = DEFAULT_ACCESS) -> Client:
    """One client for all users of a process. Raises `ValueError` for an address or a variable that can't be used."""
    if api in TRITON_APIS:
        return build_triton_client(api, base_url, model, access)
    if api not in API_PATHS:
        raise ValueError(f"no client for API {api!r}; there are: {', '.join((*API_PATHS, *TRITON_APIS))}")
    client = OpenAIClient(api, base_url, model, access)
    client.prepare()
    return client


def build_triton_client(api: str, base_url: str, model: str, access: EngineAccess = DEFAULT_ACCESS) -> TritonClient:
    """`build_client` for the APIs whose servers tell about themselves."""
    if api == "triton-generate":
        return TritonGenerateClient(base_url, model, access)
    from scenarios.clients.triton_grpc import TritonGrpcClient  # switches gRPC to gevent: only where it is used

    return TritonGrpcClient(base_url, model, access)


def list_models(base_url: str, access: EngineAccess = DEFAULT_ACCESS) -> list[str]:
    """Names under `/v1/models`. Raises openai.APIError with the reason when the endpoint does not answer."""
    client = OpenAIClient("chat", base_url, "", access)
    try:
        return client.list_models()
    finally:
        client.close()
