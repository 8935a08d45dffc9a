"""Checks a run against limits, for CI: per-request limits (SLO), limits on figures, and the verdict.

ttft_ms=500,tpot_ms=50,attainment=0.95   each request within the limits, for this share of them
ttft_p95<500   output_tok_s>=1000   failed<0.01   e2e_p99@8<4000   a figure of each level, or of one
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from analysis import slo
from analysis.export import md
from analysis.named import Figure, figure
from analysis.slo import Slo
from analysis.summary import LevelSummary, RunSummary
from analysis.tables import RunError

RULE = re.compile(r"\s*([a-z0-9_]+)(?:@([0-9.]+))?\s*(<=|>=|<|>)\s*([0-9.]+(?:e[+-]?\d+)?)\s*(%|ms|s)?\s*")
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Rule:
    """A limit on a figure."""

    text: str
    figure: Figure
    level: str | None
    below: bool
    or_equal: bool
    limit: float

    def holds(self, value: float) -> bool:
        """Whether a value is within the limit."""
        if value == self.limit:
            return self.or_equal
        return value < self.limit if self.below else value > self.limit


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked limit at one level; `fault` says what is wrong."""

    level: str
    rule: str
    fault: str | None


def parse(texts: Sequence[str]) -> tuple[Slo | None, list[Rule]]:
    """The limits as they are written: at most one set of per-request limits, and any number of rules."""
    objective, rules = None, []
    for text in texts:
        if "<" in text or ">" in text:
            rules += [_rule(part) for part in text.split(",")]
        else:
            objective = slo.parse(text)
    return objective, rules


def check(summary: RunSummary, rules: Sequence[Rule], at: Sequence[str] = ()) -> list[Finding]:
    """Every limit at every level (or at the concurrencies `at`). What was not measured does not pass."""
    unknown = set(at) - {level.label for level in summary.levels}
    if unknown or not summary.levels:
        there = ", ".join(level.label for level in summary.levels) or "none"
        raise RunError(f"no level of concurrency {', '.join(sorted(unknown)) or 'any'}; there are: {there}")
    findings = []
    for level in summary.levels:
        if at and level.label not in at:
            continue
        if summary.slo is not None:
            findings.append(_slo_finding(level, summary.slo))
        findings += [_rule_finding(level, rule) for rule in rules if rule.level in (None, level.label)]
    if not findings:
        raise RunError("nothing to check: the scenario sets no SLO; add --slo ttft_ms=500 or --slo 'ttft_p95<500'")
    return findings


def to_junit(summary: RunSummary, findings: Sequence[Finding]) -> str:
    """JUnit XML: a test case per limit and level, and one for the verdict."""
    failed = sum(finding.fault is not None for finding in findings)
    suite = ET.Element(
        "testsuite", name=_xml(summary.name), tests=str(len(findings) + 1), failures=str(failed), errors="0",
        skipped="0" if summary.verdict.status == "valid" else "1", time=f"{summary.duration_s or 0:.3f}",
    )  # fmt: skip
    if summary.started:
        suite.set("timestamp", summary.started)
    for finding in findings:
        case = ET.SubElement(suite, "testcase", classname=f"concurrency {finding.level}", name=_xml(finding.rule))
        if finding.fault:
            ET.SubElement(case, "failure", message=_xml(finding.fault)).text = _xml(finding.fault)
    case = ET.SubElement(suite, "testcase", classname="run", name="verdict valid")
    if summary.verdict.status != "valid":
        text = f"{summary.verdict.status}: {summary.verdict.reasons[0].text}"
        ET.SubElement(case, "skipped", message=_xml(text))
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def to_markdown(summary: RunSummary, findings: Sequence[Finding]) -> str:
    """A table for a job's summary page."""
    failed = sum(finding.fault is not None for finding in findings)
    title = f"### {md(summary.name)}: {f'{failed} of {len(findings)} limits broken' if failed else 'all limits kept'}"
    lines = [
        title,
        "",
        f"Verdict: **{summary.verdict.status}**. {md(summary.answer)}",
        "",
        "| level | limit | |",
        "|---:|---|---|",
    ]
    lines += [f"| {finding.level} | {md(finding.rule)} | {md(finding.fault or 'kept')} |" for finding in findings]
    return "\n".join(lines) + "\n"


def _rule(text: str) -> Rule:
    matched = RULE.fullmatch(text)
    if not matched:
        raise RunError(f"--slo {text!r}: write it as 'ttft_p95<500', 'failed<1%' or 'output_tok_s@8>=1000'")
    found, limit, unit = figure(matched[1]), float(matched[4]), matched[5]
    if (unit == "%" and found.unit) or (unit in ("ms", "s") and found.unit != "ms"):
        raise RunError(f"--slo {text!r}: {found.name} is in {found.unit or 'shares of 1'}, not in {unit}")
    limit *= {"%": 0.01, "s": 1000.0}.get(unit, 1.0)
    return Rule(text.strip(), found, matched[2], "<" in matched[3], "=" in matched[3], limit)


def _slo_finding(level: LevelSummary, objective: Slo) -> Finding:
    if level.meets_slo:
        return Finding(level.label, objective.text(), None)
    if level.slo_attainment is None:
        return Finding(level.label, objective.text(), "no request was measured")
    counts = level.counts
    text = f"{level.slo_attainment:.1%} of {counts.started} requests meet every limit ({counts.success} succeeded)"
    return Finding(level.label, objective.text(), text)


def _rule_finding(level: LevelSummary, rule: Rule) -> Finding:
    value = rule.figure.value(level)
    if value is None:
        return Finding(level.label, rule.text, f"{rule.figure.name} was not measured")
    unit = f" {rule.figure.unit}" if rule.figure.unit else ""
    return Finding(level.label, rule.text, None if rule.holds(value) else f"{rule.figure.name} is {value:.6g}{unit}")


def _xml(text: str) -> str:
    return NOT_XML.sub("�", text)
