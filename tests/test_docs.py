"""The texts keep their word: no file names a package index.

The names of the indexes are asked of the package clients at run time, so that they stand in no file.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[1]


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
