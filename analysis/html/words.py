"""The pages in other languages: `zh.json` maps English texts, with {} for what changes, to Chinese ones.

A text that is not in the table stays English; what the engine or the user wrote is never translated.
"""

import json
import re
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "zh")
HERE = Path(__file__).parent


def translate(text: str, language: str) -> str:
    """A text in a language, by its words or by its pattern."""
    table = words(language)
    if text in table or not table:
        return table.get(text, text)
    for pattern, target in _patterns(language):
        if matched := pattern.fullmatch(text):
            return target.format(*(translate(part, language) for part in matched.groups()))
    return text


@cache
def words(language: str) -> dict[str, str]:
    """The table of a language; empty for English."""
    if language == "en":
        return {}
    table: dict[str, str] = json.loads((HERE / f"{language}.json").read_text(encoding="utf-8"))
    return table


@cache
def _patterns(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Texts with gaps as patterns, those with the most fixed text first."""
    gapped = sorted((key for key in words(language) if "{}" in key), key=lambda key: -len(key))
    return [(re.compile(re.escape(key).replace(r"\{\}", "(.+?)"), re.DOTALL), words(language)[key]) for key in gapped]
