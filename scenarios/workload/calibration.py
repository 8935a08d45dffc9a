"""How many units of our text make a prompt of n tokens, by the engine's own count."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Calibration:
    """tokens = overhead_tokens + tokens_per_unit · units; the overhead is the chat template and its like."""

    tokens_per_unit: float = 1.0
    overhead_tokens: float = 0.0
    source: str = "none"

    def units(self, tokens: int) -> int:
        """Units of text for a prompt of `tokens` tokens in all."""
        return max(1, round((tokens - self.overhead_tokens) / self.tokens_per_unit))


UNCALIBRATED = Calibration()
