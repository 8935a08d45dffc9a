"""The `engine` command: options to settings, faults of them in one line each, then the server."""

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from scenarios.engine.faults import Faults
from scenarios.engine.profile import ProfileError, load_profile
from scenarios.engine.settings import DEFAULT_MODEL, DEFAULT_PROFILE, DEFAULT_SPEED, Settings

RATE = click.FloatRange(0, 1)
TIME_MS = click.FloatRange(min=0)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 takes a free one.  [default: 0]")
@click.option("--model", default=DEFAULT_MODEL, show_default=True, help="Name of the served model.")
@click.option("--profile", default=DEFAULT_PROFILE, show_default=True, help="Shipped profile, or a .toml file.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=DEFAULT_SPEED,
    show_default=True,
    help="Divides all times, those of the faults too.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the texts and the faults.")
@click.option("--prefix-caching", is_flag=True, help="Keep KV blocks of known prefixes.")
@click.option("--api-key-env", metavar="VAR", help="Ask for the API key in this environment variable.")
@click.option("--truth", type=click.Path(dir_okay=False, path_type=Path), help="Write each request's token times.")
@click.option("--until-stdin-closes", is_flag=True, help="End when standard input is closed.")
@click.option("--error-rate", type=RATE, default=0.0, help="Share of requests answered with HTTP 500.")
@click.option("--busy-rate", type=RATE, default=0.0, help="Share of requests refused with Retry-After.")
@click.option("--busy-status", type=click.Choice(["429", "503"]), default="503", help="Status of these.")
@click.option("--retry-after", "retry_after_s", type=click.IntRange(0), default=1, help="Their Retry-After, in s.")
@click.option("--mid-stream-error-rate", type=RATE, default=0.0, help="Share of streams ended by an error event.")
@click.option("--drop-rate", type=RATE, default=0.0, help="Share of requests whose connection is dropped.")
@click.option("--early-eos-rate", type=RATE, default=0.0, help="Share of answers that end early.")
@click.option("--stall-rate", type=RATE, default=0.0, help="Share of streams that stall.")
@click.option("--stall-ms", type=TIME_MS, default=1000.0, help="How long these stall.  [default: 1000]")
@click.option("--slow-first-bytes-ms", type=TIME_MS, default=0.0, help="Wait before any response.")
@click.option("--tail-ms", type=TIME_MS, default=0.0, help="Wait between last token and end mark.")
@click.option("--tokens-per-chunk", type=click.IntRange(1), default=1, help="Tokens in a chunk after the first.")
@click.option("--reasoning-tokens", type=click.IntRange(0), default=0, help="Reasoning before each answer.")
@click.option("--role-chunk-at-accept", is_flag=True, help="Send the role chunk at once.")
def engine(profile: str, api_key_env: str | None, **options: Any) -> None:
    """Serve the practice engine: an OpenAI-compatible stand-in for a GPU-hosted engine."""
    # Loaded late: `--help` and option errors need no server.
    from scenarios.engine.server import serve

    fault_names = {field.name for field in fields(Faults)}
    options["busy_status"] = int(options["busy_status"])
    faults = Faults(**{name: options.pop(name) for name in fault_names})
    try:
        settings = Settings(profile=load_profile(profile), api_key=_api_key(api_key_env), faults=faults, **options)
        serve(settings)
    except ProfileError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        click.echo(f"engine: {options['host']}:{options['port']} or its files can't be used: {error}", err=True)
        sys.exit(3)


def _api_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not (key := os.environ.get(variable)):
        raise click.UsageError(f"--api-key-env: the environment variable {variable} is not set")
    return key
