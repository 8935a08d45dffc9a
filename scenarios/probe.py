"""`tokenswarm probe`: one request through the very client of the load test, and what was measured of it.

The client works on gevent sockets, as it does under Locust: the process is patched before this is imported.
"""

import json
import math
import secrets
import sys
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import click
import pandas as pd

from analysis import schema
from analysis.metrics import tpot_ms
from scenarios.clients.access import EngineAccess
from scenarios.clients.call import LLMRequest, RequestResult
from scenarios.clients.dial import WireError
from scenarios.clients.exchange import Timeouts
from scenarios.clients.factory import TRITON_APIS, build_client, build_triton_client, list_models
from scenarios.clients.triton_model import text_models
from scenarios.engine.embedded import start_embedded_engine
from scenarios.workload.prompts import PromptMaker

APIS = ("chat", "completions", "responses", "triton-generate", "triton-grpc")
BAR_WIDTH = 60
MODELS_LIMIT_S = 5.0


@click.command()
@click.option("--host", help="Engine, for example http://gpu:8000. Without it the practice engine is asked.")
@click.option("--api", type=click.Choice(APIS), default="chat", show_default=True)
@click.option("--model", help="Model name. Without it the first model that the engine lists.")
@click.option("--prompt", help="Text of the prompt.")
@click.option(
    "--prompt-tokens", type=click.IntRange(min=1), default=128, show_default=True, help="Length of a made prompt."
)
@click.option("--max-tokens", type=click.IntRange(min=1), default=64, show_default=True)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=120.0, show_default=True, help="Seconds in all."
)
@click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="Extra header (may be repeated).")
@click.option("--api-key-env", help="Variable that holds the key. Without it OPENAI_API_KEY, if set.")
@click.option("--cumulative", is_flag=True, help="Each event repeats the whole text so far.")
@click.option("--no-verify", is_flag=True, help="Accept any TLS certificate.")
@click.option("--ca-file", type=click.Path(exists=True, dir_okay=False), help="Certificates to trust.")
@click.option("--new-connection", is_flag=True, help="Close the connection after the request.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def probe(**options: Any) -> None:
    """Send one request and show what was measured. Exit code 1 when the request failed."""
    try:
        with ExitStack() as stack:
            result = _measure(options, stack)
    except ValueError as error:  # an address or a variable that can't be used
        raise click.UsageError(str(error)) from None
    figures = _figures(result)
    click.echo(json.dumps(figures, ensure_ascii=False) if options["as_json"] else _timeline(figures))
    sys.exit(0 if result.outcome == schema.SUCCESS else 1)


def _measure(options: dict[str, Any], stack: ExitStack) -> RequestResult:
    host = options["host"]
    if not host and options["api"] in TRITON_APIS:
        raise click.UsageError(f"--api {options['api']} needs --host: the practice engine does not speak it")
    if not host:
        engine = start_embedded_engine()
        stack.callback(engine.stop)
        host = engine.url
    access = EngineAccess(
        api_key_env=options["api_key_env"],
        timeouts=Timeouts(first_token_s=None, gap_s=None, total_s=options["timeout"]),
        verify=not options["no_verify"],
        ca_file=options["ca_file"],
        headers=dict(_header(text) for text in options["headers"]),
        reuse_connections=not options["new_connection"],
        cumulative=options["cumulative"],
    )
    model = options["model"] or _first_model(host, options["api"], access.within(MODELS_LIMIT_S))
    client = build_client(options["api"], host, model, access)
    stack.callback(client.close)
    prompt = options["prompt"] or PromptMaker(secrets.token_hex(8)).text(0, options["prompt_tokens"])
    call = client.call(LLMRequest(prompt=prompt, max_tokens=options["max_tokens"]))
    call.run()
    return call.result()


def _first_model(host: str, api: str, access: EngineAccess) -> str:
    """The engine's first model; an engine that lists none gets the request all the same."""
    if api in TRITON_APIS:
        return _only_triton_model(host, api, access)
    try:
        models = list_models(host, access)
    except OSError:
        models = []
    return models[0] if models else "default"


def _only_triton_model(host: str, api: str, access: EngineAccess) -> str:
    client = build_triton_client(api, host, "", access)
    try:
        models = text_models(client)
    except WireError as error:
        raise click.ClickException(f"{host} tells nothing of its models: {error.text}") from None
    finally:
        client.close()
    if len(models) != 1:
        raise click.UsageError(
            f"--api {api} needs --model; of {host}'s models generate text: {', '.join(models) or 'none'}"
        )
    return models[0]


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise click.UsageError(f"--header {text!r}: expected NAME:VALUE")
    return name.strip(), value.strip()


def _figures(result: RequestResult) -> dict[str, Any]:
    succeeded = result.outcome == schema.SUCCESS
    arrivals = result.token_arrivals_ms
    row = {
        name: getattr(result, name)
        for name in ("first_token_ms", "last_token_ms", "output_tokens", "first_event_tokens")
    }
    tpot = float(tpot_ms(pd.DataFrame([{**row, "token_events": len(arrivals)}], dtype="float64")).iloc[0])
    return {
        "outcome": result.outcome,
        "error_class": result.error_class,
        "error_text": result.error_text,
        "http_status": result.http_status,
        "ttft_ms": result.first_token_ms,
        "first_answer_ms": result.first_answer_ms,
        "last_token_ms": result.last_token_ms,
        "e2e_ms": result.e2e_ms,
        "gaps_ms": [later - earlier for earlier, later in pairwise(arrivals)],
        "tpot_ms": tpot if succeeded and not math.isnan(tpot) else None,
        "output_tokens": result.output_tokens if succeeded else None,
        "output_tokens_source": result.output_tokens_source if succeeded else None,
        "counted_output_tokens": (result.output_tokens if succeeded else None) or 0,
        "input_tokens": result.input_tokens,
        "streamed": result.streamed,
        "text": result.text,
        "partial_events": 0 if succeeded else len(arrivals),
        "finish_reason": result.finish_reason,
        "queue_ms": 0.0,  # started - planned: a probe is planned for the moment it starts
        "connect_ms": result.connect_ms,
        "stamp": result.stamp,
    }


def _timeline(figures: dict[str, Any]) -> str:
    lines = [
        f"{figures['outcome']}"
        + (f" ({figures['error_class']}: {figures['error_text']})" if figures["error_class"] else "")
    ]
    if figures["ttft_ms"] is not None and figures["e2e_ms"]:
        waiting = round(BAR_WIDTH * figures["ttft_ms"] / figures["e2e_ms"])
        lines.append(f"|{'.' * waiting}{'#' * (BAR_WIDTH - waiting)}|")
        lines.append(" sent, . queue + prefill, first token, # decode, end")
    for label, key, unit in ROWS:
        value = figures[key]
        shown = "–" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)
        lines.append(f"{label:<16}{shown:>12} {unit if value is not None else ''}".rstrip())
    return "\n".join(lines)


ROWS = (
    ("connect", "connect_ms", "ms"),
    ("TTFT", "ttft_ms", "ms"),
    ("first answer", "first_answer_ms", "ms"),
    ("TPOT", "tpot_ms", "ms per token"),
    ("last token", "last_token_ms", "ms"),
    ("end to end", "e2e_ms", "ms"),
    ("input tokens", "input_tokens", ""),
    ("output tokens", "output_tokens", ""),
    ("counted by", "output_tokens_source", ""),
    ("finish reason", "finish_reason", ""),
    ("stamped by", "stamp", ""),
)
