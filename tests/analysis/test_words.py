"""The Chinese page: every text that we write has its translation, and nothing that the run says is touched."""

import ast
import re
from pathlib import Path

import pytest

import analysis
from analysis import run_validity, validity
from analysis.html import page, words

HTML = Path(page.__file__).parent
SAME = re.compile(
    r"([A-Z0-9]{2,4} )?(p\d\d|mean|max)|n|tok/s|req/s|tokens/s|TTFT|TPOT|ITL|E2E|[a-z0-9]+_[a-z_]+|ttft|tpot"
)


def page_texts():
    """Literals that the template and the scripts hand to the translation."""
    template = (HTML / "report.html.j2").read_text(encoding="utf-8")
    texts = re.findall(r"""\b(?:_|f|table_box)\("([^"]+)\"""", template)
    for arguments in re.findall(r"heads\(([^)]*)\)", template):
        texts += re.findall(r'"([^"]*)"', arguments)
    for arguments in re.findall(r"chart\((.*)\) }}", template):
        texts += re.findall(r'"([^"]*)"', arguments)[1:]
    for script in ("charts.js", "report.js"):
        texts += re.findall(r'\bt\("([^"]*)"\)', (HTML / script).read_text(encoding="utf-8"))
    return sorted({text for text in texts if not SAME.fullmatch(text)})


def reason_texts():
    """The texts and advices of the verdicts, with {} for what is filled in."""
    sources = [Path(str(module.__file__)).read_text(encoding="utf-8") for module in (validity, run_validity)]
    found = []
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        values = node.args[1:] if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Reason" else []
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "text":
            values = [node.value]
        for value in values:
            if isinstance(value, ast.Constant):
                found.append(str(value.value))
            elif isinstance(value, ast.JoinedStr):
                found.append("".join(str(p.value) if isinstance(p, ast.Constant) else "12" for p in value.values))
    return found


def test_every_text_of_the_page_is_translated():
    table = words.words("zh")
    assert [text for text in page_texts() if text not in table] == []


def test_every_reason_is_translated():
    texts = [text.replace("12 levels 12 12", "12 levels is suspect") for text in reason_texts()]
    texts = [text.replace("prompts are 12 12", "prompts are 12 longer") for text in texts]
    assert len(texts) > 40
    assert [text for text in texts if words.translate(text, "zh") == text] == []


@pytest.mark.parametrize("limit", [None, 50, 500])
def test_the_answer_is_translated_with_its_numbers(build, limit):
    run = build()
    if limit:
        run.slo(ttft_ms=limit)
    run.level(1, 8)
    run.request(0, [100, 150], length_class="No data")
    loaded = analysis.load(run.write())
    summary = analysis.summarise(loaded)
    answer = words.translate(summary.answer, "zh")
    assert not re.search(r"[a-z]{4,}", answer.replace("tokens", ""))
    text = page.render_page(loaded, summary, "zh")
    assert answer.replace("≤", "≤") in text
    assert '<html lang="zh">' in text


def test_what_the_run_says_stays_as_it_is(build):
    run = build()
    run.level()
    run.request(0, error_class="success", error_text="No data")
    loaded = analysis.load(run.write())
    text = page.render_page(loaded, analysis.summarise(loaded), "zh")
    assert "<code>No data</code>" in text
