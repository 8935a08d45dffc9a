"""Fenced shell sessions of a Markdown file: found, read and run.

The words after the language say what becomes of a block:

    ```console run          each `$` command is run and must exit with 0 (`exit=0,1`: or 1, a missed SLO)
    ```console run output   ... and the lines below it must be what it prints; numbers may differ, … skips lines
    ```console background   one server; it stays up for the rest of the section
    ```console shown        not run as it stands: it names hosts of the reader, or would run these very tests. Where
                            they can be, such commands are played with hosts of the test
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELL_LANGUAGES = {"console", "bash", "sh", "shell"}
USES = {"run", "background", "shown"}
FENCE = re.compile(r"^```(\S*)[ ]?(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)
LIMIT_S = 300
UP_WITHIN_S = 20

# `locust --help` is printed before the locustfile is loaded, so it never shows what a locustfile adds.
PRINT_SUITE_OPTIONS = """
from locust.argument_parser import LocustArgumentParser
from scenarios.options import add_options
parser = LocustArgumentParser(add_help=False)
add_options(parser)
print(*(option for action in parser._actions for option in action.option_strings))
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A command and the output shown below it."""

    line: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    section: str
    language: str
    flags: frozenset[str]
    text: str
    commands: list[Command] = field(default_factory=list, compare=False)

    @property
    def is_session(self) -> bool:
        return self.language in SHELL_LANGUAGES

    @property
    def exit_codes(self) -> set[int]:
        named = next((flag[5:] for flag in self.flags if flag.startswith("exit=")), "0")
        return {int(code) for code in named.split(",")}


def read_blocks(markdown: str) -> list[Block]:
    """All fenced blocks, each with the `##` heading above it."""
    headings = [(found.start(), found[1]) for found in re.finditer(r"^##? (.+)$", markdown, re.MULTILINE)]
    blocks = []
    for fence in FENCE.finditer(markdown):
        section = next((title for start, title in reversed(headings) if start < fence.start()), "")
        blocks.append(Block(section, fence[1], frozenset(fence[2].split()), fence[3], read_commands(fence[3])))
    return blocks


def read_commands(text: str) -> list[Command]:
    """`$ command`, continued after a backslash; other lines are output of the command above."""
    commands: list[Command] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            commands.append(Command(re.sub(r"\s+", " ", line[2:]).strip()))
        elif commands:
            commands[-1] = Command(commands[-1].line, (*commands[-1].shown, line))
    return commands


def normal(line: str) -> str:
    """A line without what differs from run to run: numbers, paths' digits, widths of rules and gaps."""
    return re.sub(r"\s+", " ", re.sub(r"[─━═-]{2,}", "--", re.sub(r"[\d.,]*\d", "#", line))).strip()


def first_difference(shown: tuple[str, ...], printed: str) -> str | None:
    """The first shown line that is not printed, in order; a line of … (or ...) lets lines be skipped."""
    rest = [normal(line) for line in printed.splitlines() if line.strip()]
    skipping = False
    for line in shown:
        if line.strip() in ("…", "..."):
            skipping = True
        elif line.strip():
            at = rest.index(normal(line)) if normal(line) in rest else -1
            if at < 0 or (at > 0 and not skipping):
                return line
            rest = rest[at + 1 :]
            skipping = False
    return None


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "120"}


def make_scratch(folder: Path) -> Path:
    """The repository's root for a reader of the README: all of it but the runs they make."""
    for entry in ROOT.iterdir():
        if entry.name not in ("runs", ".git"):
            (folder / entry.name).symlink_to(entry)
    return folder


def run(command: Command, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command.line],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


# Small enough for a test; the scenarios that the README names are made for GPUs.
SHORT = (
    "--only-summary --set load.levels=2 --set load.warmup_s=0.2 --set load.measure_s=1"
    " --set workload.inputs=16 --set workload.output.tokens=8"
)


def played(command: Command, hosts: dict[str, str]) -> Command:
    """A command that is only shown, with hosts of the test instead of the reader's; a load test becomes a short one."""
    line = command.line
    for shown, real in hosts.items():
        line = line.replace(shown, real)
    assert "gpu:" not in line, f"a host of the reader is left in: {line}"
    is_load = "locust" in line.split()[0] and "--worker" not in line
    return Command(f"{line} {SHORT}" if is_load else line)


def shown_sessions() -> list[Block]:
    """The README's sessions that are only shown."""
    return [block for block in read_blocks((ROOT / "README.md").read_text()) if "shown" in block.flags]


def play(command: Command, folder: Path, hosts: dict[str, str]) -> str:
    """Run a command that is only shown, with hosts of the test; what it prints."""
    command = played(command, hosts)
    ran = run(command, folder)
    assert ran.returncode == 0, f"$ {command.line}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A ```python block, run as it stands."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment(), capture_output=True, text=True, timeout=LIMIT_S
    )


@contextmanager
def server(command: Command, folder: Path) -> Iterator[None]:
    """A background command; up when its port listens, gone with its whole process group."""
    port = re.findall(r"port[ =](\d+)", command.line)
    log = folder / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            ["bash", "-c", command.line],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        give_up_s = time.monotonic() + UP_WITHIN_S
        while not (port and listens(int(port[0]))):
            assert process.poll() is None, f"`{command.line}` ended: {log.read_text()}"
            assert time.monotonic() < give_up_s, f"`{command.line}` does not listen: {log.read_text()}"
            time.sleep(0.1)
        yield
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=10)


def listens(port: int) -> bool:
    """Whether a loopback port is listened on; looks, does not connect."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[3] == "0A" and int(row[1].split(":")[1], 16) == port for row in rows)
