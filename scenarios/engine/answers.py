"""What the practice engine says: seeded, natural looking text, one word or mark a token.

The whole answer is planned when the request arrives, so its length, its end and its stop string are known.
When its tokens come out is the scheduler's business.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

_WORDS = (  # noqa: SIM905 - as a list it would take a line a word
    "the of and to in is that it was for on are as with at be this have from or one had by but not what all were "
    "when we there can an your which their said if do will each about how up out them then many some so these "
    "would other into has more two like time look write go see number no way could people my than first water "
    "been call who oil its now find long down day did get come made may part over new sound take only little work "
    "know place year live me back give most very after thing our just name good sentence man think say great "
    "where help through much before line right too mean old any same tell boy follow came want show also around "
    "form three small set put end does another well large must big even such because turn here why ask went men "
    "read need land different home us move try kind hand picture again change off play spell air away animal "
    "house point page letter mother answer found study still learn should world high every near add food between "
    "own below country plant last school father keep tree never start city earth eye light thought"
).split()

EOS = ""  # the end token: it counts in the usage, and has no text
_TEXT_TOKENS = 4096  # the text goes round after so many
_NATURAL_LENGTH_LOG_MEAN = 5.3  # median of 200 tokens for an answer that may end by itself
_NATURAL_LENGTH_LOG_SIGMA = 0.6


def _running_text() -> tuple[str, ...]:
    """A text as tokens: words with the blank before them, commas and full stops in between."""
    generator = random.Random("running text")
    tokens: list[str] = []
    since_mark = 0
    while len(tokens) < _TEXT_TOKENS:
        since_mark += 1
        if since_mark > 4 and generator.random() < 0.15:
            tokens.append(generator.choice((",", ".")))
            since_mark = 0
        else:
            tokens.append(" " + generator.choice(_WORDS))
    return tuple(tokens)


TEXT = _running_text()


@dataclass(frozen=True, slots=True)
class Answer:
    """A planned answer: the text of each token and why it ends."""

    tokens: Sequence[str]
    finish_reason: str  # stop or length
    stop_reason: str | None = None  # the stop string that ended it


def plan_answer(
    generator: random.Random,
    max_tokens: int,
    min_tokens: int = 0,
    ignore_eos: bool = False,
    stop: Sequence[str] = (),
) -> Answer:
    """Choose what the model says to one request, of at most `max_tokens` tokens."""
    start = generator.randrange(_TEXT_TOKENS)
    natural_tokens = max(min_tokens + 1, 8, round(_natural_length(generator)))
    if ignore_eos or natural_tokens > max_tokens:
        tokens = _text_from(start, max_tokens)
        finish_reason = "length"
    else:
        tokens = [*_text_from(start, natural_tokens - 1), EOS]
        finish_reason = "stop"
    for_stop = _cut_at_stop(tokens, stop, min_tokens) if stop else None
    return for_stop or Answer(tokens, finish_reason)


def end_early(answer: Answer, tokens: int) -> Answer:
    """The same answer, but the model ends it by itself with token number `tokens`."""
    if tokens >= len(answer.tokens):
        return answer
    return Answer([*answer.tokens[: tokens - 1], EOS], "stop")


def _natural_length(generator: random.Random) -> float:
    return generator.lognormvariate(_NATURAL_LENGTH_LOG_MEAN, _NATURAL_LENGTH_LOG_SIGMA)


def _text_from(start: int, count: int) -> list[str]:
    tokens: list[str] = []
    while len(tokens) < count:
        tokens.extend(TEXT[start : start + count - len(tokens)])
        start = 0
    return tokens


def _cut_at_stop(tokens: Sequence[str], stop: Sequence[str], min_tokens: int) -> Answer | None:
    """End the answer with the token that completes a stop string; its text ends before that string."""
    text = ""
    for index, token in enumerate(tokens):
        text += token
        if index < min_tokens or not token:
            continue
        # Only where this token takes part can a stop string be new.
        for string in stop:
            found = text.find(string, max(0, len(text) - len(token) - len(string) + 1))
            if found >= 0:
                return Answer(_clipped(tokens[: index + 1], found), "stop", string)
    return None


def _clipped(tokens: Sequence[str], length: int) -> list[str]:
    """As many tokens, but only the first `length` characters of their text."""
    clipped = []
    for token in tokens:
        clipped.append(token[:length])
        length = max(0, length - len(token))
    return clipped
