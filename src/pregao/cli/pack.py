"""`pregao pack`: environment archive for the workers of a Spark cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EPILOG = "\n\n".join(
    (
        "Example:",
        "pregao pack environment.tar.gz",
        "pregao ingest captures/ --lake s3://bucket/lake --master spark://head:7077 "
        "--conf spark.archives=environment.tar.gz#environment "
        "--conf spark.pyspark.python=./environment/bin/python",
    )
)


def pack(
    out: Annotated[Path, typer.Argument(metavar="OUT.tar.gz", help="Archive to write.")],
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PACKAGE", help="Exclude a package that the workers have installed."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file.")] = False,
) -> None:
    """Pack Pregão and its dependencies for the workers of a Spark cluster.

    Writes a launcher script for the driver next to the archive, at the relative path that Python
    has inside it.
    """
    from pregao.errors import UsageError
    from pregao.lake.execution.environment_archive import driver_launcher, folder_name
    from pregao.lake.execution.environment_archive import pack as write_archive
    from pregao.safe_io.output_files import NewFiles, replace_file

    if not out.name.endswith((".tar.gz", ".tgz")):
        raise UsageError(f"{out} must end in .tar.gz or .tgz: Spark unpacks archives by name.")
    with NewFiles(force=force) as files:
        packed = write_archive(files.create(out), exclude=exclude or ())
    python = out.parent / folder_name(out) / "bin" / "python"
    try:
        python.parent.mkdir(parents=True, exist_ok=True)
        replace_file(python, driver_launcher().encode())
        python.chmod(0o755)
    except OSError as error:
        raise UsageError(f"{python} cannot be written: {error.strerror}.") from None
    typer.echo(
        f"{out}: {len(packed.packages)} packages, {packed.files:,} files, "
        f"{out.stat().st_size:,} bytes"
    )
    typer.echo(
        f"Use it in this folder with: --conf spark.archives={out.name}#{folder_name(out)} "
        f"--conf spark.pyspark.python=./{folder_name(out)}/bin/python"
    )
