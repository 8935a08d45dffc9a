"""The commands that read runs: `python -m analysis report RUN`, and the same under `tokenswarm`."""

import sys
from pathlib import Path

import click

from analysis import export, html, runs, slo, text
from analysis.figures import summarise
from analysis.summary import RunSummary
from analysis.tables import RunError

PRINTED = {"json": export.to_json, "csv": export.to_csv, "md": export.to_markdown}


EXIT_NOT_VALID = 3


class UsageFault(click.ClickException):
    """A fault in one clear line; exit code 2."""

    exit_code = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main_group() -> None:
    """Read the run folders that a load test wrote."""


@main_group.command()
@click.argument("run")
@click.option("--html", "as_html", is_flag=True, help="Write report.html, one self-contained page.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON instead of tables.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one CSV row per level and length class.")
@click.option("--md", "as_md", is_flag=True, help="Print Markdown.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Folder for report.html, .json, .csv, .md."
)
@click.option("--slo", "slo_text", metavar="LIMITS", help="Other limits than the scenario's: ttft_ms=500,tpot_ms=50.")
@click.option("--strict", is_flag=True, help="Exit with 3 when the run is not valid.")
def report(
    run: str,
    as_html: bool,
    as_json: bool,
    as_csv: bool,
    as_md: bool,
    out: Path | None,
    slo_text: str | None,
    strict: bool,
) -> None:
    """Report on RUN: a run folder, its name under runs/, or "latest"."""
    wanted = [name for name, on in (("json", as_json), ("csv", as_csv), ("md", as_md)) if on]
    if len(wanted) > 1 and out is None:
        raise UsageFault(f"--{' and --'.join(wanted)} can not be printed together; add --out FOLDER")
    try:
        loaded = runs.load(run)
        summary = summarise(loaded, slo.parse(slo_text) if slo_text else None)
    except RunError as error:
        raise UsageFault(str(error)) from None
    folder = out or loaded.path
    folder.mkdir(parents=True, exist_ok=True)
    if as_html:
        html.write_page(loaded, summary, folder / "report.html")
        click.echo(f"wrote {folder / 'report.html'}", err=True)
    _print_or_write(summary, wanted, out)
    if strict and summary.verdict.status != "valid":
        sys.exit(EXIT_NOT_VALID)


def _print_or_write(summary: RunSummary, wanted: list[str], out: Path | None) -> None:
    if not wanted or out is not None:  # standard output is not taken by another form
        text.print_summary(summary)
    for name in wanted:
        rendered = PRINTED[name](summary)
        if out is None:
            sys.stdout.write(rendered if rendered.endswith("\n") else rendered + "\n")
        else:
            (out / f"report.{name}").write_text(rendered, encoding="utf-8")
            click.echo(f"wrote {out / f'report.{name}'}", err=True)
