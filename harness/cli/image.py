"""`privbench image`: the images that the docker backend runs jobs in."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli import output
from harness.cli.options import JsonOption
from workloads.errors import SpecError

image_app = typer.Typer(
    help="The images of the docker backend.",
    epilog="Example: privbench image build",
    no_args_is_help=True,
)


@image_app.command("build", epilog="Example: privbench image build --cuda")
def image_build(
    cuda: Annotated[bool, typer.Option("--cuda", help="Build for NVIDIA GPUs.")] = False,
    base: Annotated[
        str | None,
        typer.Option("--base", help="The base image; default: Python's or NVIDIA's, from a registry."),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option("--python", help="The base image's Python; default: this one's (CUDA: 3.12)."),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option("--index", help="With --cuda: an index of torch, such as .../whl/cu126 for older GPUs."),
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Its name; default: privbench:VERSION.")] = None,
    source: Annotated[Path, typer.Option("--source", help="A checkout of privbench.")] = Path(),
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only collect the wheels, for Apptainer.")
    ] = False,
) -> None:
    """Build this version's image from a checkout: pip collects wheels here, the build needs no network."""
    from harness.backends.docker import image

    if index is not None and not cuda:
        raise SpecError(
            f"--index {index} is for images with --cuda: give both, or neither", field="--index", value=index
        )
    chosen = python or ("3.12" if cuda else image.PYTHON)  # the Python of the CUDA base image
    recipe = image.Recipe(source.absolute(), cuda, base, chosen, tag, index)
    output.say(f"collecting wheels in {recipe.folder}")
    image.prepare(recipe)
    if not prepare:
        seconds = image.build(recipe)
        output.say(f"built {recipe.name} in {seconds:.0f} s")


@image_app.command("list", epilog="Example: privbench image list --json")
def image_list(json: JsonOption = False) -> None:
    """List the images of privbench on the engine, with version, git state and digest."""
    from harness.backends.docker.image import images

    output.listing(images(), json)


@image_app.command("doctor", epilog="Example: privbench image doctor")
def image_doctor(
    image: Annotated[str | None, typer.Option("--image", help="An image; default: this version's.")] = None,
    json: JsonOption = False,
) -> None:
    """Check that the engine and the image can run tasks; exit code 1 if they cannot."""
    from harness.backends.docker.image import examine

    found = examine(image)
    rows = [
        {"what": each.what, "state": "good" if each.good else "missing", "found": each.found}
        for each in found
    ]
    output.listing(rows, json)
    if not all(each.good for each in found):
        raise typer.Exit(1)
