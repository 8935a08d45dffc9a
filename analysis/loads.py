"""The load of a level in words, the same in every report."""


def load_text(mode: str, requested: float | None, number: int) -> str:
    """The load of a level in words: "concurrency 8", "5 requests/s", ..."""
    if requested is None:
        return f"level {number}"
    texts = {"rate": "{:g} requests/s", "trace": "trace ×{:g}", "batch": "batch of {:g}"}
    return texts.get(mode, "concurrency {:g}").format(requested)


def load_label(mode: str, requested: float | None, number: int) -> str:
    """The same for a table: "8", "5/s", ..."""
    return load_text(mode, requested, number).removeprefix("concurrency ").replace(" requests/s", "/s")
