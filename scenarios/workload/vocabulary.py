"""The words that prompts are made of.

`words_en.txt` holds common English words that are one token each, with the blank before them, in the
vocabularies of today's open models (Llama 2 and 3, Qwen 3, DeepSeek V3, Gemma 3). `words_zh.txt` holds
common Chinese characters; most vocabularies have each of them as one token, but pairs may be one, too.
"""

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
SEPARATOR = {"en": " ", "zh": ""}  # between two units
FULL_STOP = {"en": ".", "zh": "。"}


@cache
def words(language: str) -> tuple[str, ...]:
    """Units of a language: English words, or Chinese characters."""
    text = (FOLDER / f"words_{language}.txt").read_text(encoding="utf-8")
    return tuple(text.split()) if SEPARATOR[language] else tuple(char for char in text if not char.isspace())
