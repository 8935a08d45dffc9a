"""The words that prompts are made of.

`words_en.txt` holds common English words that are one token each, with the blank before them, in the
vocabularies of today's open models (Llama 2 and 3, Qwen 3, DeepSeek V3, Gemma 3). `words_zh.txt` holds
common Chinese characters; most vocabularies have each of them as one token, but pairs may be one, too.
"""

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
SEPARATOR = {"en": " ", "zh": ""}  # between two units
FULL_STOP = {"en": ".", "zh": "。"}

# A word, up to three digits, or any other character (of scripts without blanks: each): close to most vocabularies.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"[^\W\d_{_CJK}]+|\d{{1,3}}|\S")
LENGTH_CLASSES = (128, 512, 2048, 8192)


@cache
def words(language: str) -> tuple[str, ...]:
    """Units of a language: English words, or Chinese characters."""
    text = (FOLDER / f"words_{language}.txt").read_text(encoding="utf-8")
    return tuple(text.split()) if SEPARATOR[language] else tuple(char for char in text if not char.isspace())


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has, for sorting and sieving; of our own texts exactly their units."""
    return sum(1 for _ in _TOKEN.finditer(text))


def length_class(tokens: int) -> str:
    """Class of a length that no scenario names, as in datasets and traces."""
    upper = next((bound for bound in LENGTH_CLASSES if tokens <= bound), None)
    return f"up to {upper}" if upper else f"over {LENGTH_CLASSES[-1]}"
