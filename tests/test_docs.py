"""The texts keep their word: their commands work, nothing people can call is left out, no file names an index.

The names of the package indexes are asked of the package clients at run time, so that they stand in no file.
"""

import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support import sessions

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text() if (ROOT / "README.zh-CN.md").exists() else ""
BLOCKS = sessions.read_blocks(README)
SECTIONS = list(dict.fromkeys(block.section for block in BLOCKS if block.is_session or block.language == "python"))
BIN = Path(sys.executable).parent
ELSEWHERE = {"make", "docker", "curl", "trtllm-serve", "python3"}  # programs of the reader's machines

written = pytest.mark.skipif(not README.strip(), reason="README.md is not written yet")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return sessions.make_scratch(tmp_path_factory.mktemp("readme"))


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_every_command_of_the_readme_works(section, scratch):
    """In the order of the README: one section reads the run that an earlier one has made."""
    with ExitStack() as servers:
        for block in (block for block in BLOCKS if block.section == section):
            if block.language == "python":
                ran = sessions.run_python(block.text, scratch)
                assert ran.returncode == 0, ran.stderr
            for command in block.commands if block.is_session else []:
                if "background" in block.flags:
                    servers.enter_context(sessions.server(command, scratch))
                elif "run" in block.flags:
                    ran = sessions.run(command, scratch)
                    assert ran.returncode in block.exit_codes, f"$ {command.line}\n{ran.stdout}{ran.stderr}"
                    if "output" in block.flags:
                        missing = sessions.first_difference(command.shown, ran.stdout + ran.stderr)
                        assert missing is None, f"$ {command.line}\n{ran.stdout}{ran.stderr}\nnot printed: {missing}"


@written
def test_scenarios_of_the_readme_have_no_fault(tmp_path):
    from scenarios.spec import load_scenario

    scenarios = [block.text for block in BLOCKS if block.language == "toml" and "[workload]" in block.text]
    for number, text in enumerate(scenarios):
        (tmp_path / f"{number}.toml").write_text(text)
        load_scenario(str(tmp_path / f"{number}.toml"))


@written
def test_every_session_of_the_readme_says_what_becomes_of_it():
    for block in BLOCKS:
        if block.is_session:
            assert len(block.flags & sessions.USES) == 1, block
            assert block.commands, block
            assert block.flags <= sessions.USES | {"output"} or any("exit=" in flag for flag in block.flags), block


@written
def test_commands_that_are_only_shown_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in BLOCKS:
        for command in block.commands if "shown" in block.flags else []:
            words = [word for word in shlex.split(command.line) if not re.match(r"[A-Z_]+=", word)]
            assert words[0] in ELSEWHERE or (ROOT / words[0]).exists(), words
            if words[0] == "make":
                assert set(words[1:]) <= targets, command.line


@written
def test_the_chinese_readme_has_the_same_blocks():
    english = [(block.language, block.flags, block.text) for block in BLOCKS]
    assert [(block.language, block.flags, block.text) for block in sessions.read_blocks(CHINESE)] == english


@written
@pytest.mark.parametrize("text", [README, CHINESE], ids=["README.md", "README.zh-CN.md"])
def test_links_and_pictures_lead_somewhere(text):
    targets = re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r"(?:src|href)=\"([^\"#]+)", text)
    missing = [target for target in targets if "://" not in target and not (ROOT / target).exists()]
    assert not missing


@written
@pytest.mark.parametrize("text", [README, CHINESE], ids=["README.md", "README.zh-CN.md"])
def test_everything_people_can_call_is_documented(text):
    from scenarios.cli import COMMANDS

    wanted = {f"tokenswarm {command}" for command in COMMANDS}
    makefile = (ROOT / "Makefile").read_text()
    wanted |= {f"make {target}" for target in re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)}
    wanted |= {path.name for path in (ROOT / "locustfiles").glob("*.py")}
    wanted |= {path.name for path in (ROOT / "scenarios").glob("*.toml")}
    wanted |= set(printed(sys.executable, "-c", sessions.PRINT_SUITE_OPTIONS).split())
    assert {name for name in wanted if name not in text} == set()


def test_a_session_is_read_as_its_reader_would():
    markdown = (
        "# T\n## A\n```console run output exit=0,1\n$ one \\\n  two\nprints 12 ms\n$ three\n```\n```toml\nx = 1\n```\n"
    )
    first, second = sessions.read_blocks(markdown)
    assert (first.section, sorted(first.flags), second.is_session) == ("A", ["exit=0,1", "output", "run"], False)
    assert (first.exit_codes, second.exit_codes) == ({0, 1}, {0})
    assert [(command.line, command.shown) for command in first.commands] == [
        ("one two", ("prints 12 ms",)),
        ("three", ()),
    ]


def test_shown_output_may_differ_in_its_numbers_only():
    printed = "level  1\nTTFT 45.2 ms\nmore\ndone\n"
    assert sessions.first_difference(("level 2", "TTFT 44.9 ms", "more", "done"), printed) is None
    assert sessions.first_difference(("level 2", "…", "done"), printed) is None
    assert sessions.first_difference(("level 2", "done"), printed) == "done"
    assert sessions.first_difference(("TPOT 44.9 ms",), printed) == "TPOT 44.9 ms"


def test_the_changelog_has_the_form_it_names():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in text
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds


def printed(*command: str) -> str:
    """What a command prints, nothing where it is not installed or fails."""
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


def index_hosts() -> set[str]:
    """Hosts that pip, npm and apt take packages from on this machine, and pip's own defaults."""
    from pip._internal.models.index import PyPI

    hosts = {PyPI.netloc, PyPI.file_storage_domain}
    texts = [printed(sys.executable, "-m", "pip", "config", "list"), printed("npm", "config", "get", "registry")]
    texts += [path.read_text() for path in Path("/etc/apt").glob("sources.list.d/*") if path.is_file()]
    for address in re.findall(r"\w+://[^\s'\"]+", "\n".join(texts)):
        if host := urlsplit(address).hostname:
            hosts.add(host)
    return hosts


def tracked_files() -> list[Path]:
    listed = printed("git", "-C", str(ROOT), "ls-files", "-z").split("\0")
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def test_no_file_names_a_package_index():
    hosts = index_hosts()
    assert hosts
    if not (files := tracked_files()):
        pytest.skip("not a git checkout: no list of the files that are ours")
    named = {
        f"{path.relative_to(ROOT)}: {host}" for path in files for host in hosts if host.encode() in path.read_bytes()
    }
    assert not named
