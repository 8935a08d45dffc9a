"""The commands that read runs: `python -m analysis report RUN`, and the same under `tokenswarm`."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from analysis import check as checks
from analysis import compare as comparing
from analysis import (
    compare_text,
    dialects,
    explain_text,
    export,
    exporting,
    html,
    importing,
    report_text,
    runs,
    slo,
    text,
    windows,
)
from analysis.figures import summarise
from analysis.summary import RunSummary
from analysis.tables import RunError

EXIT_MISSED, EXIT_USAGE, EXIT_NOT_VALID = 1, 2, 3
PRINTED = {"json": export.to_json, "csv": export.to_csv, "md": export.to_markdown}


class UsageFault(click.ClickException):
    """A fault in one clear line."""

    exit_code = EXIT_USAGE


def one_line_errors(command: Callable[..., None]) -> Callable[..., None]:
    """What can not be read or done ends in one line and exit code 2, not in a traceback."""

    @wraps(command)
    def guarded(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except (RunError, OSError) as error:
            raise UsageFault(str(error)) from None

    return guarded


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main_group() -> None:
    """Read the run folders that a load test wrote."""


@main_group.command()
@click.argument("run")
@click.option("--html", "as_html", is_flag=True, help="Write report.html, one self-contained page.")
@click.option("--lang", type=click.Choice(html.LANGUAGES), default="en", help="Language of the page.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON instead of tables.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one CSV row per level and length class.")
@click.option("--md", "as_md", is_flag=True, help="Print Markdown.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for report.html, .json, .csv, .md."
)
@click.option("--slo", "slo_text", metavar="LIMITS", help="Other limits than the scenario's: ttft_ms=500,tpot_ms=50.")
@click.option(
    "--dialect", metavar="TOOL", help=f"Print the figures as a tool defines them: {', '.join(dialects.DIALECTS)}."
)
@click.option("--strict", is_flag=True, help="Exit with 3 when the run is not valid.")
@one_line_errors
def report(
    run: str,
    as_html: bool,
    lang: str,
    as_json: bool,
    as_csv: bool,
    as_md: bool,
    out: Path | None,
    slo_text: str | None,
    dialect: str | None,
    strict: bool,
) -> None:
    """Report on RUN: a run folder, its name under runs/, or "latest"."""
    wanted = [name for name, on in (("json", as_json), ("csv", as_csv), ("md", as_md)) if on]
    if len(wanted) > 1 and out is None:
        raise UsageFault(f"--{' and --'.join(wanted)} can not be printed together; add --out FOLDER")
    loaded = runs.load(run)
    summary = summarise(loaded, slo.parse(slo_text) if slo_text else None)
    if dialect:
        spoken = dialects.find(dialect)
        rows = [(level.label, dialects.speak(loaded, level, spoken)) for level in windows.levels(loaded)]
        title = f"{summary.name} in the terms of {dialect} (ms, per s). {spoken.beyond}"
        text.print_rendered(explain_text.spoken_table(title, rows), Console())
        return
    folder = out or loaded.path
    folder.mkdir(parents=True, exist_ok=True)
    if as_html:
        html.write_page(loaded, summary, folder / "report.html", lang)
        click.echo(f"wrote {folder / 'report.html'}", err=True)
    _print_or_write(summary, wanted, out)
    if strict and summary.verdict.status != "valid":
        sys.exit(EXIT_NOT_VALID)


@main_group.command()
@click.argument("run")
@click.option("--level", "number", type=int, help="Number of the level; the last one otherwise.")
@one_line_errors
def attainment(run: str, number: int | None) -> None:
    """Print as JSON how many of a level's requests met the SLO of RUN, and how many were due."""
    loaded = runs.load(run, with_tokens=False)
    objective = slo.from_scenario(loaded.info.get("scenario") or {})
    found = [level for level in windows.levels(loaded) if number in (None, level.number)]
    if objective is None or not found:
        raise RunError(f"{run}: no SLO in its scenario" if found else f"{run}: no level {number}")
    level = found[-1]
    requests = loaded.requests[windows.measured(loaded, level)]
    click.echo(json.dumps(asdict(slo.attained(requests, level.dropped + level.missed, objective))))


@main_group.command()
@click.argument("groups", nargs=-1, required=True, metavar="A B [C…]")
@click.option("--anyway", is_flag=True, help="Compare although the load differs; the output says so.")
@click.option("--gate", "gates", multiple=True, metavar="GATE", help="Exit with 1 on more change: 'ttft_p95 +5%'.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--md", "as_md", is_flag=True, help="Print Markdown.")
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with charts.")
@one_line_errors
def compare(
    groups: Sequence[str], anyway: bool, gates: Sequence[str], as_json: bool, as_md: bool, page: Path | None
) -> None:
    """Compare runs: each of B, C… against A. Repeats of one are joined by commas: a1,a2,a3 b1,b2,b3."""
    if len(groups) < 2:
        raise UsageFault("two runs at least: tokenswarm compare A B")
    parsed = [comparing.parse_gate(gate) for gate in gates]
    summaries = [[summarise(runs.load(run)) for run in group.split(",")] for group in groups]
    found = comparing.compare(summaries)
    differences = list(dict.fromkeys(text for comparison in found for text in comparison.differences))
    if differences and not anyway:
        raise UsageFault("not alike (--anyway compares all the same):\n  " + "\n  ".join(differences))
    if page is not None:
        html.write_comparison([group[0] for group in summaries], found, page)
        click.echo(f"wrote {page}", err=True)
    if as_json or as_md:
        click.echo(compare_text.to_json(found) if as_json else compare_text.to_markdown(found))
    else:
        text.print_rendered(compare_text.render(found), Console())
    broken = [(gate, effect) for gate in parsed for one in found for effect in one.effects if gate.broken_by(effect)]
    for gate, effect in broken:
        click.echo(f"gate {gate.text}: {effect.figure} at {effect.level} {compare_text.change_text(effect)}", err=True)
    if broken:
        sys.exit(EXIT_MISSED)


@main_group.command()
@click.argument("run")
@click.option("--slo", "limits", multiple=True, metavar="LIMITS", help="ttft_ms=500,tpot_ms=50 or 'ttft_p95<500'.")
@click.option("--level", "levels", multiple=True, help="Check this concurrency only; may be repeated.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write JUnit XML.")
@click.option("--github", is_flag=True, help="Add a table to the job summary of GitHub Actions.")
@click.option("--strict", is_flag=True, help="Exit with 3 when the run is not valid, and not only when client-bound.")
@one_line_errors
def check(
    run: str, limits: Sequence[str], levels: Sequence[str], junit: Path | None, github: bool, strict: bool
) -> None:
    """Check RUN against limits. Exit code 0: kept, 1: broken, 3: the run can not tell."""
    objective, rules = checks.parse(limits)
    summary = summarise(runs.load(run), objective)
    findings = checks.check(summary, rules, levels)
    if junit is not None:
        junit.write_text(checks.to_junit(summary, findings), encoding="utf-8")
    if github:
        with Path(os.environ.get("GITHUB_STEP_SUMMARY") or os.devnull).open("a", encoding="utf-8") as file:
            file.write(checks.to_markdown(summary, findings))
    for finding in findings:
        click.echo(f"{'FAIL' if finding.fault else 'ok  '} {finding.level}: {finding.rule}{_because(finding)}")
    click.echo(f"verdict: {summary.verdict.status}")
    if summary.verdict.status == "client-bound" or (strict and summary.verdict.status != "valid"):
        sys.exit(EXIT_NOT_VALID)
    if any(finding.fault for finding in findings):
        sys.exit(EXIT_MISSED)


@main_group.command()
@click.argument("run")
@click.option("--level", "levels", multiple=True, help="This concurrency only; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@one_line_errors
def explain(run: str, levels: Sequence[str], as_json: bool) -> None:
    """Show RUN in the terms of other tools side by side, and which rule makes which number differ."""
    loaded = runs.load(run)
    chosen = [level for level in windows.levels(loaded) if not levels or level.label in levels]
    if not chosen:
        raise RunError(f"no level of concurrency {', '.join(levels) or 'any'} in this run")
    found = [(level.label, *dialects.explain(loaded, level)) for level in chosen]
    if as_json:
        click.echo(explain_text.to_json(found))
    else:
        text.print_rendered(explain_text.render(found), Console())


@main_group.command("export")
@click.argument("run")
@click.option("--format", "form", type=click.Choice(exporting.FORMATS), required=True, help="Whose files to write.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder; otherwise the run's own export/, or for Parquet the run folder itself.",
)
@one_line_errors
def export_run(run: str, form: str, out: Path | None) -> None:
    """Write RUN in the files of another tool, one set per level, or as Parquet files, which reports then read."""
    loaded = runs.load(run)
    for path in exporting.export_run(
        loaded, form, out or (loaded.path / "export" if form != "parquet" else loaded.path)
    ):
        click.echo(f"wrote {path}", err=True)


@main_group.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--format", "form", type=click.Choice(importing.FORMATS), required=True, help="Whose result it is.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The run folder to make.")
@one_line_errors
def import_run(file: Path, form: str, out: Path) -> None:
    """Make a run folder of another tool's result FILE, to report on it and to compare it."""
    click.echo(f"wrote {importing.import_run(file, form, out)}", err=True)


def _because(finding: checks.Finding) -> str:
    return f": {finding.fault}" if finding.fault else ""


def _print_or_write(summary: RunSummary, wanted: list[str], out: Path | None) -> None:
    if not wanted or out is not None:  # then no other form has taken standard output
        report_text.print_summary(summary)
    for name in wanted:
        rendered = PRINTED[name](summary)
        if out is None:
            sys.stdout.write(rendered if rendered.endswith("\n") else rendered + "\n")
        else:
            (out / f"report.{name}").write_text(rendered, encoding="utf-8")
            click.echo(f"wrote {out / f'report.{name}'}", err=True)
