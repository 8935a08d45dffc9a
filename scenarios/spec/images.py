"""Images that go into chat requests: from a folder, so that the scenario stays small."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PositiveInt, ValidationInfo

from scenarios.spec.base import Table, raise_faults

SUFFIXES = (".gif", ".jpeg", ".jpg", ".png", ".webp")


def image_files(folder: str) -> list[Path]:
    """The images of a folder, in order."""
    return sorted(path for path in Path(folder).iterdir() if path.suffix.lower() in SUFFIXES)


def _resolved(folder: str, info: ValidationInfo) -> str:
    """Absolute path of a folder with images. A scenario that came over the wire is left as it is."""
    context: dict[str, Any] | None = info.context
    if context is None:
        return folder
    found = next((path for path in (Path(folder), context["folder"] / folder) if path.is_dir()), None)
    if found is None:
        raise_faults([("", f"no such folder: {folder} (looked in {Path.cwd()} and {context['folder'].resolve()})")])
    elif not image_files(str(found)):
        raise_faults([("", f"no images in {found.resolve()}, expected files ending in {', '.join(SUFFIXES)}")])
    return str(found.resolve()) if found else folder


class ImagesSpec(Table):
    """Images before the text of a request; each worker reads the folder itself, so it has to lie on every machine."""

    folder: Annotated[str, AfterValidator(_resolved)]
    per_request: PositiveInt = Field(default=1, description="drawn at random: an engine may know them from before")
