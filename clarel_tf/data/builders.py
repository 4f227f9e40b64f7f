"""Bases of the TFDS builders: marked folders, the note of the raw files, configs by name."""

import contextlib
import inspect
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from clarel_tf.data.raw_files import RawFiles, stamps_of
from clarel_tf.errors import ClarelError, printable
from clarel_tf.storage import ownership

BUILD_KIND = "dataset"  # in the mark of a dataset's folder
_SHOWN = 5  # changed files in a message
_OWN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")


class MarkedBuild:
    """A builder that marks the folder it builds in and notes the raw files that it read.

    By the mark, leftovers of a kill are recognised; by the note, a dataset is told from the data
    of another folder and from files that have changed (`raw_files.py`).

    It also tells TFDS where its files are (README.md, checksums.tsv). TFDS would infer that from
    the import name, but in a clone `clarel_tf.datasets` is in another folder.
    """

    # Attributes of the TFDS builder, another base of the same class.
    name: str
    info: Any
    data_path: Any
    data_dir_root: Any
    builder_config: Any
    MANUAL_DOWNLOAD_INSTRUCTIONS: str | None

    # How to build other data beside what is there, for messages.
    BESIDE = "name another --data_dir"
    # The splits that may be empty; TFDS does not write empty splits.
    OPTIONAL_SPLITS: tuple[str, ...] = ()

    @tfds.core.utils.classproperty
    @classmethod
    def code_path(cls) -> tfds.core.Path:
        """The file of the builder."""
        return tfds.core.Path(inspect.getfile(cls))

    @classmethod
    def _get_pkg_dir_path(cls) -> tfds.core.Path:
        return cls.code_path.parent

    def raw_files(self, manual_dir: Path) -> list[Path]:
        """The files and folders below `manual_dir` that a build reads."""
        raise NotImplementedError

    def is_prepared(self) -> bool:
        """Whether the dataset is built; TFDS warns about a folder that is not there yet."""
        if not self.data_path.exists():
            return False
        return super().is_prepared()  # type: ignore[misc]  # of the TFDS builder

    def check_before_build(self, manual_dir: Path) -> None:
        """Raises ClarelError for mistakes in the raw files that are found before a build."""

    def download_and_prepare(
        self, *, download_dir: Any = None, download_config: Any = None, **kwargs: Any
    ) -> None:
        """Builds the dataset, or checks that the one that is there was made of these files."""
        config = download_config or tfds.download.DownloadConfig()
        with _one_line_for_tfds():
            if self.data_path.exists() and not config.download_mode.overwrite_dataset:
                self.compare_raw_files(config.manual_dir)
            elif self.MANUAL_DOWNLOAD_INSTRUCTIONS:
                usual = tfds.core.Path(download_dir or self.data_dir_root / "downloads") / "manual"
                if config.manual_dir:
                    self.check_before_build(self.checked_manual_dir(config.manual_dir))
                elif usual.exists():  # else TFDS looks for it, or a test brings its own
                    self.check_before_build(usual)
            # A method of the TFDS builder, which comes later among the bases.
            super().download_and_prepare(  # type: ignore[misc]
                download_dir=download_dir, download_config=download_config, **kwargs
            )

    def _download_and_prepare(self, dl_manager: Any, *args: Any, **kwargs: Any) -> None:
        with contextlib.ExitStack() as stack:
            if "://" not in os.fspath(self.data_path):  # cloud storage has no locks
                stack.enter_context(ownership.marked_while_used(Path(self.data_path), BUILD_KIND))
            folder = self._manual_dir(dl_manager)
            if folder is None or "://" in os.fspath(folder):
                super()._download_and_prepare(dl_manager, *args, **kwargs)  # type: ignore[misc]
                return
            folder = Path(os.fspath(folder))
            paths = self.raw_files(folder)
            before = stamps_of(folder, paths)
            super()._download_and_prepare(dl_manager, *args, **kwargs)  # type: ignore[misc]
            noted = RawFiles.of(folder, paths)
            if changed := sorted(dict(before.items() ^ noted.stamps().items())):
                raise ClarelError(
                    f"{folder}: {_some(changed)} changed while the dataset was built; build it "
                    "again"
                )
            noted.write(self.data_path)

    # TFDS has no switch for these two messages. Its own speak of a download of unknown size.
    def _log_download_bytes(self) -> None:
        print(f"Builds the dataset {self.info.full_name} in {self.data_path}", flush=True)

    def _log_download_done(self) -> None:
        print(f"The dataset {self.info.full_name} is built", flush=True)

    def _manual_dir(self, dl_manager: Any) -> Any:
        if not self.MANUAL_DOWNLOAD_INSTRUCTIONS:
            return None
        try:
            return dl_manager.manual_dir
        except AssertionError as error:  # TFDS says so if it is missing or empty
            raise ClarelError(
                f"dataset {self.name!r} needs its raw files; give their folder as --manual_dir. "
                + " ".join(self.MANUAL_DOWNLOAD_INSTRUCTIONS.split())
            ) from error

    def checked_manual_dir(self, manual_dir: Any) -> Path:
        """The folder with the raw files, if it is one that can be read and is not empty."""
        folder = tfds.core.Path(os.fspath(manual_dir)).expanduser()
        instructions = " ".join((self.MANUAL_DOWNLOAD_INSTRUCTIONS or "").split())
        if folder.exists() and not folder.is_dir():
            raise ClarelError(
                f"manual_dir {folder} is a file; name the folder that holds it. {instructions}"
            )
        if not folder.exists():
            raise ClarelError(f"manual_dir {folder} does not exist. {instructions}")
        try:
            is_empty = not any(folder.iterdir())
        except OSError as error:
            raise ClarelError(f"cannot read manual_dir {folder}: {error.strerror}") from error
        if is_empty:
            raise ClarelError(f"manual_dir {folder} is empty. {instructions}")
        return folder

    def compare_raw_files(self, manual_dir: Any = None) -> None:
        """Raises ClarelError if the built dataset is not of the files in `manual_dir`.

        Without `manual_dir`, the dataset is used as it was built; if its raw files are still there
        and have changed, a line on stderr says so.
        """
        if not self.MANUAL_DOWNLOAD_INSTRUCTIONS:
            if manual_dir:
                raise ClarelError(
                    f"dataset {self.name!r} is made without raw files, so --manual_dir is not for "
                    "it; is --dataset missing?"
                )
            return
        remote = "://" in f"{manual_dir or ''} {os.fspath(self.data_path)}"
        noted = None if remote else RawFiles.read(Path(self.data_path))
        if noted is None:
            print(
                f"note: {self.data_path} has no note of its raw files (a build of an older version "
                "or on cloud storage), so changes in them go unnoticed; delete that folder to "
                "build it again",
                file=sys.stderr,
            )
            return
        given = noted.folder if manual_dir is None else self.checked_manual_dir(manual_dir)
        folder = Path(os.fspath(given))
        if manual_dir is None and not folder.is_dir():
            return  # nothing to compare with
        changes = noted.changes(folder, self._present_files(folder, manual_dir is None))
        if not changes:
            self._note_stamps(noted, folder)
            return
        is_same_folder = folder.resolve() == Path(noted.folder)
        what = (
            f"dataset {self.name!r} in {self.data_path} was built from {noted.folder}, "
            + ("which has changed since" if is_same_folder else f"and {folder} holds other data")
            + f" ({_some(changes)})"
        )
        if manual_dir is None:
            print(printable(f"note: {what}; it is used as it was built"), file=sys.stderr)
            return
        raise ClarelError(
            f"{what}. To keep both, {self.BESIDE}; to replace it, delete that folder, and it is "
            "built again (runs made with it can then be evaluated only with a build of the older "
            "files); to use it as it was built, leave out --manual_dir"
        )

    def _present_files(self, folder: Path, may_fail: bool) -> list[Path]:
        try:
            return self.raw_files(folder)
        except ClarelError:
            if may_fail:  # files were moved away: they count as missing
                return []
            raise

    def _note_stamps(self, noted: RawFiles, folder: Path) -> None:
        """Notes new times of the same contents, so that they need not be read each time."""
        with contextlib.suppress(OSError):  # the dataset may be read-only
            now = noted.stamped(folder)
            if now.files != noted.files:
                now.write(Path(self.data_path))


def _some(texts: Sequence[str]) -> str:
    """The first of the texts, and how many more there are."""
    more = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return "; ".join([*texts[:_SHOWN], *more])


@contextlib.contextmanager
def _one_line_for_tfds() -> Iterator[None]:
    """In the program `tfds`, a ClarelError becomes one line instead of a traceback."""
    try:
        yield
    except ClarelError as error:
        program = Path(sys.argv[0])
        if program.name != "tfds" and program.parts[-3:] != ("scripts", "cli", "main.py"):
            raise
        raise SystemExit(f"error: {error}") from None


class OptionalConfigs:
    """A builder with configs that are built only on request by name.

    `tfds build` without --config builds all of `BUILDER_CONFIGS`, one after the other; those in
    `OPTIONAL_CONFIGS` need files or machines that not everybody has.
    """

    BUILDER_CONFIGS: Sequence[tfds.core.BuilderConfig]
    OPTIONAL_CONFIGS: Sequence[tfds.core.BuilderConfig] = ()

    @tfds.core.utils.classproperty
    @classmethod
    def builder_configs(cls) -> dict[str, tfds.core.BuilderConfig]:
        """All configs by name, for `tfds.builder` and --config."""
        return {config.name: config for config in (*cls.BUILDER_CONFIGS, *cls.OPTIONAL_CONFIGS)}


class NamedConfigs(OptionalConfigs):
    """A builder that takes any name as a config: own datasets side by side, each under its name."""

    @classmethod
    def get_builder_config(cls, name: str, version: Any = None) -> tfds.core.BuilderConfig | None:
        """The config of this name; a new one for a name that is not among `builder_configs`."""
        del version
        if found := cls.builder_configs.get(name):
            return found
        if not _OWN_NAME.fullmatch(name):
            with _one_line_for_tfds():
                raise ClarelError(
                    f"--config={name}: the name of a dataset begins with a letter, and has only "
                    "letters, digits, - and _"
                )
        return tfds.core.BuilderConfig(name=name, description="A user's own data, by its name.")
