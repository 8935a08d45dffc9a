"""The practice engine's tokenizer: simple, fast and the same for prompts, answers and /tokenize.

One token is a word of letters together with the blank before it, or up to three digits, or any other
single character that is not white space; Chinese, Japanese and Korean characters are a token each. Other
white space belongs to no token. So "In 2024, it ran." has the 7 tokens "In", "202", "4", ",", " it", " ran", ".".
"""

import re
from collections.abc import Mapping, Sequence
from zlib import crc32

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf" ?[^\W\d_{_CJK}]+|\d{{1,3}}|\S")

VOCABULARY_SIZE = 128_000

# The chat template wraps each message as <|start|>, role, newline ... <|end|> and opens the answer with
# the first three of them.
MESSAGE_HEADER = ("<|start|>", "<|role|>", "\n")
MESSAGE_END = ("<|end|>",)


def tokenize(text: str) -> list[str]:
    """The tokens of a text, in order."""
    return _TOKEN.findall(text)


def tokenize_chat(messages: Sequence[Mapping[str, object]]) -> list[str]:
    """The tokens of a conversation: 4 for each message beside its content, and 3 that open the answer."""
    tokens: list[str] = []
    for message in messages:
        tokens.extend(MESSAGE_HEADER)
        tokens.extend(tokenize(content_text(message.get("content"))))
        tokens.extend(MESSAGE_END)
    tokens.extend(MESSAGE_HEADER)
    return tokens


def content_text(content: object) -> str:
    """A message's content as one text: a string, or the text parts of a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return ""


def token_ids(tokens: Sequence[str]) -> list[int]:
    """A stable number for each token. Different words may share one: nothing decodes them."""
    return [crc32(token.encode()) % VOCABULARY_SIZE for token in tokens]
