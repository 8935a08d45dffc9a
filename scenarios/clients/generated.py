"""What an event says that was generated, beside the plain text of an answer: other channels, and tokens."""

from analysis.schema import REASONING, REFUSAL, TOOL_CALL
from scenarios.clients.payloads import Chunk, Delta


def other_channel(delta: Delta) -> tuple[str, str]:
    """Channel and text of payload that is no answer; ("", "") if there is none."""
    if text := delta.reasoning or delta.reasoning_content:
        return REASONING, text
    if text := _tool_text(delta):
        return TOOL_CALL, text
    if delta.refusal:
        return REFUSAL, delta.refusal
    return "", ""


def _tool_text(delta: Delta) -> str:
    functions = [call.function for call in delta.tool_calls or ()]
    functions.append(delta.function_call)
    return "".join((function.name or "") + (function.arguments or "") for function in functions if function)


def told_tokens(chunk: Chunk) -> int | None:
    """Tokens in this event by what it says itself."""
    if chunk.event_tokens is not None:
        return chunk.event_tokens
    counts = [len(choice.token_ids) for choice in chunk.choices or () if choice.token_ids]
    return sum(counts) if counts else None
