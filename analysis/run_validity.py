"""Can a run be believed as a whole? Lost records and workers, damaged files, clocks, and the worst of its levels."""

from collections.abc import Iterable, Mapping
from typing import Any

from analysis import foreign
from analysis.runs import Run
from analysis.tables import RunError
from analysis.verdict import Reason, Verdict, verdict

CLOCK_UNCERTAINTY_MS = 10.0
REPEATED_SHARE = 0.01


def judge_run(run: Run, levels: Iterable[Verdict]) -> Verdict:
    """Verdict on the run: its own faults, and the worst of its levels."""
    reasons = [*_records(run), *_locust(run)]
    reasons += [*_imported(run.info), *_workers(run.info), *_repeats(run.info), *_warm_up(run.info)]
    statuses = [level.status for level in levels]
    for status in ("client-bound", "suspect"):
        if count := statuses.count(status):
            text = f"{count} of {len(statuses)} levels {'is' if count == 1 else 'are'} {status}"
            reasons.append(Reason(status, text, "see the reasons at each level"))
    return verdict(reasons)


def _records(run: Run) -> Iterable[Reason]:
    if run.damages:
        first = run.damages[0]
        text = f"{len(run.damages)} damaged rows left out (first: {first.file} line {first.line}: {first.reason})"
        yield Reason("suspect", text, "the run may have been killed; see the list")
    if run.invalid:
        counts = ", ".join(f"{count} {name}" for name, count in run.invalid.items())
        yield Reason("suspect", f"impossible values refused: {counts}", "look for a clock step or a missing stamp")
    if run.duplicates:
        yield Reason("note", f"{run.duplicates} repeated rows counted once", "nothing to do")
    if run.orphan_tokens:
        text = f"{run.orphan_tokens} token rows belong to no recorded request or have no possible time"
        yield Reason("suspect", text, "records were lost on their way to the master")
    reconciled = run.info.get("reconciliation") or {}
    if reconciled.get("missing"):
        text = f"{reconciled['missing']} of {reconciled.get('started', '?')} started requests have no record"
        yield Reason("suspect", text, "a worker or its connection was lost; run again")


def _imported(info: Mapping[str, Any]) -> Iterable[Reason]:
    if tool := info.get("imported_from"):
        text = f"imported from {tool}: how busy its client was, and what it left out, is not known"
        yield Reason("note", text, "measure with tokenswarm to have it judged")


def _locust(run: Run) -> Iterable[Reason]:
    """Locust's own statistics, when `--csv` wrote them into the run folder: it counts each request once too."""
    for file in sorted(run.path.glob("*_stats.csv")):
        try:
            counted = foreign.locust_totals(file).requests
        except RunError:
            continue  # not a file of Locust, or cut: nothing to compare with
        if counted != len(run.requests):
            text = f"Locust counted {counted} requests in {file.name}, {len(run.requests)} are recorded"
            yield Reason("note", text, "other tasks may fire requests too, or Locust reset its statistics")


def _workers(info: Mapping[str, Any]) -> Iterable[Reason]:
    workers = info.get("workers") or []
    lost = [worker for worker in workers if worker.get("lost")]
    if lost:
        names = ", ".join(str(worker.get("client_id") or worker.get("worker")) for worker in lost)
        yield Reason(
            "suspect", f"workers lost during the run: {names}", "its users were missing from then on; run again"
        )
    unsure = max((worker.get("clock_uncertainty_ms") or 0.0 for worker in workers), default=0.0)
    if unsure > CLOCK_UNCERTAINTY_MS:
        text = f"clocks of the workers are known to within {unsure:.0f} ms only"
        yield Reason("note", text, "windows are that unsure; durations are not touched")


def _repeats(info: Mapping[str, Any]) -> Iterable[Reason]:
    counts = [worker.get("workload") or {} for worker in info.get("workers") or []]
    prompts = sum(count.get("prompts", 0) for count in counts)
    share = sum(count.get("prompts_repeated", 0) for count in counts) / prompts if prompts else 0.0
    if share > REPEATED_SHARE:
        text = f"{share:.0%} of prompts had been sent before in this run"
        yield Reason(
            "suspect", text, "a prefix cache answers them faster; give it distinct prompts, or a longer dataset"
        )


def _warm_up(info: Mapping[str, Any]) -> Iterable[Reason]:
    load = (info.get("scenario") or {}).get("load")
    if load and not load.get("warmup_s") and not load.get("warmup_requests"):
        yield Reason("note", "no warm-up configured", "set load.warmup_s: first requests meet cold caches")
