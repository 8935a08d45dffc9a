"""Clients by the name of their API, from the options of a run or a probe."""

from collections.abc import Mapping

from scenarios.clients.call import Client
from scenarios.clients.connection import Pool
from scenarios.clients.exchange import Timeouts, Wire
from scenarios.clients.openai_client import API_PATHS, OpenAIClient, api_key_from
from scenarios.clients.triton_generate import TritonGenerateClient
from scenarios.clients.triton_model import TritonClient

TRITON_APIS = ("triton-generate", "triton-grpc")


def build_client(
    *,
    api: str,
    base_url: str,
    model: str,
    api_key_env: str | None = None,
    timeouts: Timeouts = Timeouts(),  # noqa: B008  (frozen)
    verify: bool = True,
    ca_file: str | None = None,
    headers: Mapping[str, str] | None = None,
    proxies: Mapping[str, str] | None = None,
    reuse_connections: bool = True,
    cumulative: bool = False,
) -> Client:
    """One client for all users of a process. `proxies` by scheme; None takes them from the environment."""
    if api in TRITON_APIS:
        return build_triton_client(
            api=api,
            base_url=base_url,
            model=model,
            api_key_env=api_key_env,
            timeouts=timeouts,
            verify=verify,
            ca_file=ca_file,
            headers=headers,
            proxies=proxies,
            reuse_connections=reuse_connections,
            cumulative=cumulative,
        )
    if api not in API_PATHS:
        raise ValueError(f"no client for API {api!r}; there are: {', '.join((*API_PATHS, *TRITON_APIS))}")
    client = OpenAIClient(
        api=api,
        base_url=base_url,
        model=model,
        wire=Wire(Pool(keeps=reuse_connections), timeouts, verify, ca_file),
        api_key=api_key_from(api_key_env),
        headers=headers,
        proxies=proxies,
        cumulative=cumulative,
    )
    client.prepare()
    return client


def build_triton_client(
    *,
    api: str,
    base_url: str,
    model: str,
    api_key_env: str | None = None,
    timeouts: Timeouts = Timeouts(),  # noqa: B008  (frozen)
    verify: bool = True,
    ca_file: str | None = None,
    headers: Mapping[str, str] | None = None,
    proxies: Mapping[str, str] | None = None,
    reuse_connections: bool = True,
    cumulative: bool = False,
) -> TritonClient:
    """`build_client` for the APIs whose servers tell about themselves. Raises `ValueError` for a wrong address."""
    api_key = api_key_from(api_key_env) if api_key_env else None  # OPENAI_API_KEY is not meant for a Triton
    if api == "triton-generate":
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"{base_url!r} is no HTTP address: expected http://HOST:8000")
        return TritonGenerateClient(
            base_url=base_url,
            model=model,
            wire=Wire(Pool(keeps=reuse_connections), timeouts, verify, ca_file),
            api_key=api_key,
            headers=headers,
            proxies=proxies,
            cumulative=cumulative,
        )
    from scenarios.clients.triton_grpc import TritonGrpcClient  # switches gRPC to gevent: only where it is used

    return TritonGrpcClient(
        base_url=base_url,
        model=model,
        timeouts=timeouts,
        api_key=api_key,
        headers=headers,
        verify=verify,
        ca_file=ca_file,
        proxied=proxies is None or bool(proxies),
        reuse_connections=reuse_connections,
        cumulative=cumulative,
    )


def list_models(
    base_url: str,
    *,
    api_key_env: str | None = None,
    timeout_s: float = 5.0,
    verify: bool = True,
    ca_file: str | None = None,
    headers: Mapping[str, str] | None = None,
    proxies: Mapping[str, str] | None = None,
) -> list[str]:
    """Names under `/v1/models`. Raises openai.APIError with the reason when the endpoint does not answer."""
    timeouts = Timeouts(timeout_s, timeout_s, timeout_s, timeout_s)
    client = OpenAIClient(
        api="chat",
        base_url=base_url,
        model="",
        wire=Wire(Pool(keeps=False), timeouts, verify, ca_file),
        api_key=api_key_from(api_key_env),
        headers=headers,
        proxies=proxies,
    )
    try:
        return client.list_models()
    finally:
        client.close()
