"""How long the modelled engine takes: read from a TOML file, one number per effect.

A profile is all that the scheduler knows about hardware, model and serving stack. The numbers' meanings
stand in `Profile`; where they come from stands in the profile files beside this module.
"""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

PROFILES_FOLDER = Path(__file__).parent / "profiles"
BLOCK_TOKENS = 16  # tokens in one block of the KV cache


@dataclass(frozen=True, slots=True)
class Profile:
    """One engine on one GPU. All times at speed 1."""

    name: str
    # one iteration step
    step_ms: float  # every step: reading the weights, launching kernels
    decode_sequence_ms: float  # for each sequence that decodes: sampling, host work, output
    kv_read_ms_per_1k_tokens: float  # for the KV cache that the step's attention reads
    prefill_ms_per_token: float  # for each prompt token computed in the step
    # the API server in front of the scheduler
    request_ms: float  # parse, tokenize, hand over, before the scheduler sees the request
    request_ms_per_running: float  # how much each running stream slows that down
    # limits
    max_model_len: int  # prompt + output tokens of one request
    max_num_seqs: int  # sequences in one step
    max_num_batched_tokens: int  # tokens computed in one step
    prefill_share_tokens: int  # prompt tokens a step may compute, divided by the sequences in it
    min_prefill_chunk_tokens: int  # no prompt gets less than this in a step
    kv_blocks: int  # KV cache, in blocks of 16 tokens

    def request_delay_ms(self, running: int) -> float:
        """Time from the arrival of a request until the scheduler sees it."""
        return self.request_ms + self.request_ms_per_running * running


class ProfileError(Exception):
    """The profile can't be used; the text says where and why."""


def load_profile(name_or_file: str) -> Profile:
    """Read a shipped profile by name, or any profile by its file (ending in .toml)."""
    path = Path(name_or_file) if name_or_file.endswith(".toml") else PROFILES_FOLDER / f"{name_or_file}.toml"
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProfileError(
            f"no profile {name_or_file!r}; the shipped ones are {', '.join(shipped_profiles())}, or name a .toml file"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"{path}: {error}") from None
    faults = list(_faults(values))
    if faults:
        raise ProfileError("\n".join(f"{path}: {fault}" for fault in faults))
    return Profile(**values)


def shipped_profiles() -> list[str]:
    """Names of the profiles that come with the package."""
    return sorted(path.stem for path in PROFILES_FOLDER.glob("*.toml"))


def _faults(values: dict[str, object]) -> list[str]:
    known = {field.name: field.type for field in fields(Profile)}
    faults = [f"unknown key {key!r}" for key in values.keys() - known.keys()]
    for key, kind in known.items():
        value = values.get(key)
        if key not in values:
            faults.append(f"{key} is missing")
        elif kind is str:
            if not isinstance(value, str):
                faults.append(f"{key} must be a text, not {value!r}")
        elif isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int):
            faults.append(f"{key} must be {'a number' if kind is float else 'a whole number'}, not {value!r}")
        elif value < 0 or (kind is int and value < 1):
            faults.append(f"{key} must be {'0 or more' if kind is float else '1 or more'}, not {value!r}")
    if not faults:
        kv_tokens = values["kv_blocks"] * BLOCK_TOKENS  # type: ignore[operator]  # checked to be an int above
        if kv_tokens < values["max_model_len"]:  # type: ignore[operator]  # same
            faults.append(f"kv_blocks hold {kv_tokens} tokens, fewer than one request of max_model_len may need")
    return faults
