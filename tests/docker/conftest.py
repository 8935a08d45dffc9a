"""The image's content, for a machine without a container engine."""

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="package")
def image_root(tmp_path_factory) -> Path:
    """/app of the image: what the Dockerfile copies into it."""
    app = tmp_path_factory.mktemp("image") / "app"
    app.mkdir()
    for line in (ROOT / "docker" / "Dockerfile").read_text().splitlines():
        for source in line.split()[1:-1] if line.startswith("COPY ") and "--from" not in line else []:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, app / source, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, app / source)
    return app
