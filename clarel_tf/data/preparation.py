"""Builds a dataset, one process at a time, and removes what a killed build left."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

from clarel_tf.data.builders import BUILD_KIND, MarkedBuild
from clarel_tf.errors import ClarelError
from clarel_tf.storage import files, ownership

# Files that TFDS writes during a build, under temporary and final names.
_BUILD_FILES = re.compile(
    r"(incomplete\.[0-9a-fA-F]{32}\.)?([^/]+\.tfrecord[^/]*|bucket_[^/]+\.tmp|dataset_info\.json|"
    r"features\.json|raw_files\.json|backbone\.json|[^/]+\.labels\.txt)"
)


def prepare(builder: tfds.core.DatasetBuilder, manual_dir: str | None = None) -> None:
    """Builds the dataset if it is not built yet.

    Args:
      manual_dir: folder with the raw files, for datasets that need them. ClarelError if the dataset
        is built already, of other files.
    """
    if builder.is_prepared():
        if isinstance(builder, MarkedBuild):
            builder.compare_raw_files(manual_dir)
        return
    needs_files = builder.MANUAL_DOWNLOAD_INSTRUCTIONS
    if needs_files and not manual_dir:
        raise ClarelError(
            f"dataset {_full_name(builder)!r} is not built yet in {builder.data_dir_root}"
            f"{_built_ones(builder)}; give the folder with its raw files as "
            f"--manual_dir. {needs_files}"
        )
    if isinstance(builder, MarkedBuild):
        if needs_files:
            manual_dir = os.fspath(builder.checked_manual_dir(manual_dir))
        else:
            builder.compare_raw_files(manual_dir)
    with files.writing_in(builder.data_path, "the dataset's folder"), _only_builder(builder):
        if builder.is_prepared():  # another process has built it meanwhile
            builder.info.read_from_directory(builder.data_path)
            if isinstance(builder, MarkedBuild):
                builder.compare_raw_files(manual_dir)
            return
        with _no_bars():
            builder.download_and_prepare(
                download_config=tfds.download.DownloadConfig(manual_dir=manual_dir)
            )


@contextlib.contextmanager
def _no_bars() -> Iterator[None]:
    """Hides the bars of TFDS, several a split, among which our own lines would be lost."""
    before = getattr(tfds.core.utils.tqdm_utils, "_active", True)  # TFDS cannot be asked
    tfds.display_progress_bar(False)
    try:
        yield
    finally:
        tfds.display_progress_bar(before)


def _full_name(builder: tfds.core.DatasetBuilder) -> str:
    """Name and config, as the flags name them."""
    config = builder.builder_config
    return f"{builder.name}/{config.name}" if config else builder.name


def _built_ones(builder: tfds.core.DatasetBuilder) -> str:
    """The configs of the same dataset that are built, for a message."""
    if "://" in os.fspath(builder.data_path) or not builder.builder_config:
        return ""
    found = Path(builder.data_path).parent.parent.glob(f"*/{builder.version}/dataset_info.json")
    names = ", ".join(sorted(path.parent.parent.name for path in found))
    return f" (built there, by --config: {names})" if names else ""


@contextlib.contextmanager
def _only_builder(builder: tfds.core.DatasetBuilder) -> Iterator[None]:
    """Holds the lock for building a dataset, and removes leftovers of a killed build."""
    if "://" in os.fspath(builder.data_path):  # cloud storage: no locks, and only TFDS deletes
        yield
        return
    folder = Path(builder.data_path).parent
    folder.mkdir(parents=True, exist_ok=True)
    with files.only_process(folder, "the dataset's folder", wait=True):
        for leftover in folder.glob(f"incomplete.??????_{builder.version}"):
            _remove_leftover(leftover)
        yield


def _remove_leftover(folder: Path) -> None:
    """Removes the leftovers of a killed build if the folder holds nothing else."""
    if folder.is_symlink():
        return
    if not os.listdir(folder):
        folder.rmdir()
    elif ownership.is_abandoned(folder, BUILD_KIND):
        try:
            ownership.delete_own(folder, _BUILD_FILES, "the unfinished dataset")
            folder.rmdir()
        except ClarelError as error:
            print(f"{error}; the build continues", file=sys.stderr)
