"""The short cut for regular reads: many events of the chat or completions API by one call of the JSON decoder.

Most of a stream is like that: each read is one event, and each event is more text of the one answer.
"""

from scenarios.clients.payloads import Chunk, chat_chunks


def regular_chunks(pieces: list[bytes]) -> list[Chunk]:
    """The events of pieces that hold exactly one each; [] if they are not like that."""
    count = len(pieces)
    joined = b"".join(pieces)
    if (
        joined.count(b"\n") != 2 * count
        or joined.count(b"}\n\ndata: {") != count - 1
        or not (joined.startswith(b"data: {") and joined.endswith(b"}\n\n"))
        or b"\r" in joined
    ):
        return []
    chunks = chat_chunks(b"[%b]" % joined[6:-2].replace(b"\n\ndata: ", b","))
    return chunks if len(chunks) == count else []


def plain_text(chunk: Chunk, first_choice: int | None) -> str:
    """The text of what nearly every event is: more answer of the only choice, and nothing else. "" if not."""
    choices = chunk.choices
    if chunk.usage is not None or chunk.error or not choices or len(choices) != 1:
        return ""
    choice = choices[0]
    if choice.finish_reason or choice.token_ids or choice.index != first_choice:
        return ""
    delta = choice.delta
    return (choice.text if delta is None else delta.content) or ""
