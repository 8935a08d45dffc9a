"""Prompts: text of an exact number of units that no prefix cache can answer.

A unit is a word, a Chinese character or a full stop, about one token each. A prompt begins with words
of its own, then goes on with ready-made sentences: the whole prompt costs some microseconds, and the
worker that makes it is the one that measures.
"""

from random import Random

from scenarios.workload import vocabulary

# Words of its own: enough for any number of runs to differ (1,600 words ^ 10), and fewer than the 16 tokens
# of a cache block, so that already the first block of two prompts differs.
HEAD_UNITS = 10
SENTENCE_UNITS = 16
SENTENCES = 1024


class PromptMaker:
    """Makes the prompts of one seed, for example "7/0" for worker 0 of a run with seed 7."""

    def __init__(self, seed: str, language: str = "en") -> None:
        self._seed = seed
        self._words = vocabulary.words(language)
        self._separator = vocabulary.SEPARATOR[language]
        stop = vocabulary.FULL_STOP[language]
        rng = Random(seed)
        self._sentences = [
            self._separator.join(rng.choices(self._words, k=SENTENCE_UNITS - 1)) + stop for _ in range(SENTENCES)
        ]

    def text(self, name: int | str, units: int) -> str:
        """Prompt `name` of this seed, exactly `units` long; other names begin with other words."""
        rng = Random(f"{self._seed}/{name}")
        sentences, rest = divmod(max(units - HEAD_UNITS, 0), SENTENCE_UNITS)
        head = rng.choices(self._words, k=min(units, HEAD_UNITS) + rest)
        return self._separator.join(head + rng.choices(self._sentences, k=sentences))

    def join(self, *texts: str) -> str:
        """Texts one after the other, as many units as they have together."""
        return self._separator.join(text for text in texts if text)
