"""Functions that all programs share: they load data and runs, and report errors in one line."""

import contextlib
import os
import sys
import tempfile
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from absl import app, flags, logging

from clarel_tf.commands.flag_help import help_text
from clarel_tf.config import Config
from clarel_tf.errors import ClarelError, printable
from clarel_tf.experiments.run_data import BEGIN_ANEW
from clarel_tf.experiments.run_folder import MAKE_AGAIN, RunFolder, is_older_run
from clarel_tf.storage import checksums, ownership
from clarel_tf.storage.files import disk_trouble
from clarel_tf.training.process_memory import keep_few_kernels

if TYPE_CHECKING:  # modules that import TensorFlow
    from tensorflow_datasets.core import DatasetBuilder

    from clarel_tf.data.split import Split
    from clarel_tf.training.distributed.distribution import Distribution


def define_data_flags() -> None:
    """Defines the flags for the folders of built and raw datasets."""
    flags.DEFINE_string(
        "data_dir",
        None,
        "folder of built datasets (default: that of the run, or ~/tensorflow_datasets)",
    )
    flags.DEFINE_string(
        "manual_dir",
        None,
        "folder with the raw files of a dataset: to build it, or to compare it with what was built",
    )


def define_backbone_flags() -> None:
    """Defines the flags for a network that the record of a run is not enough to find."""
    flags.DEFINE_string(
        "backbone",
        None,
        "path of the .keras file or SavedModel that made the features of the run (default: the "
        "network that the run records)",
    )
    flags.DEFINE_string(
        "weights",
        None,
        "file of its weights, if that network is a model of keras.applications (default: Keras "
        "fetches those of ImageNet)",
    )


def load_dataset(
    name: str, config: str, folder: RunFolder | None = None
) -> tuple["DatasetBuilder", dict[str, "Split"]]:
    """The builder of a dataset and its splits; builds the dataset first if necessary.

    Args:
      folder: of the run that was trained on it, which notes its data_dir.
    """
    start_tensorflow()
    from clarel_tf.data.loading import get_builder, load_splits

    data_dir = flags.FLAGS.data_dir
    if data_dir and os.path.isfile(data_dir):
        raise ClarelError(f"--data_dir={data_dir} is a file; name the folder of built datasets")
    if folder and not data_dir and folder.data.data_dir:
        data_dir = folder.data.data_dir
        if not os.path.isdir(data_dir):
            raise ClarelError(
                f"the run in {folder.path} read its data from {data_dir}, which does not exist; "
                "name the folder of built datasets with --data_dir"
            )
    builder = get_builder(name, config, data_dir)
    return builder, load_splits(builder, flags.FLAGS.manual_dir)


def make_distribution(kind: str) -> "Distribution | None":
    """The `Distribution` named by --distribute, or None for one device."""
    if kind == "none":
        return None
    start_tensorflow(use_devices=kind != "multi_worker")
    from clarel_tf.training.distributed import distribution

    made = distribution.mirrored() if kind == "mirrored" else distribution.multi_worker()
    print(made, flush=True)
    return made


def share_cores(operations: int) -> None:
    """Divides the threads among `operations`; must run before TensorFlow is imported."""
    if operations == 1:
        return  # TensorFlow's default: all threads for one operation
    allowed = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    threads = int(allowed) if allowed.isdecimal() else os.cpu_count() or 1
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(max(1, threads // operations))


def finished_run(run_dir: str | None) -> tuple[RunFolder, Config]:
    """The folder and the config of the finished run in --run_dir."""
    if not run_dir:
        raise ClarelError("--run_dir is missing: name the folder of a finished run")
    folder = RunFolder(run_dir)
    _refuse_other_folder(folder.path)
    if not folder.results_path.is_file():
        what = (
            "holds no finished run (no results.json)" if folder.path.exists() else "does not exist"
        )
        raise ClarelError(
            f"--run_dir={run_dir} {what}; name the folder of a finished run, or finish this one "
            "with its training command"
        )
    checksums.check(folder.results_path, MAKE_AGAIN)
    return folder, Config.from_dict(checksums.read_json(folder.config_path, BEGIN_ANEW))


def _refuse_other_folder(folder: Path) -> None:
    """Raises ClarelError for a folder that is neither empty nor the folder of a run."""
    kind = ownership.kind_of(folder)
    is_empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if kind == "run" or is_empty or (folder.is_dir() and is_older_run(folder)):
        return
    # Not `check_claim`, which tells how to find a folder for a new run.
    what = "was not made by clarel_tf" if kind is None else f"is marked as {kind!r}"
    raise ClarelError(
        f"--run_dir={folder} {what}, so it holds no run; name the folder of a finished run"
    )


@contextlib.contextmanager
def about_flag(name: str) -> Iterator[None]:
    """Adds the name of a flag to messages that lack it."""
    try:
        yield
    except ClarelError as error:
        if f"--{name}" in str(error):
            raise
        raise ClarelError(f"--{name}: {error}") from error


def run(
    main: Callable[..., None],
    about: str,
    when_stopped: str = "no partial files are left",
    takes_paths: bool = False,
) -> None:
    """Parses the flags and calls `main`; ClarelError becomes one line on stderr and exit code 1.

    Args:
      about: what the program does, for --help.
      when_stopped: state after Ctrl-C, for the message.
      takes_paths: arguments that are no flags are paths, a list for `main`; otherwise there are
        none.
    """

    def parse(argv: list[str]) -> list[str]:
        if {"--help", "-h", "-help", "--helpshort", "--helpfull"} & set(argv[1:]):
            with contextlib.suppress(BrokenPipeError):  # `--help | head`
                print(help_text(about), flush=True)
            os._exit(0)
        try:
            rest = flags.FLAGS(argv)
        except flags.Error as error:
            _fail(str(error))
        if rest[1:] and not takes_paths:
            _fail(f"unexpected argument {rest[1]!r}; flags look like --name=value (see --help)")
        return rest

    def guarded(argv: list[str]) -> None:
        logging.set_verbosity(logging.WARNING)
        try:
            main(*([argv[1:]] if takes_paths else []))
            sys.stdout.flush()
        except ClarelError as error:
            _fail(str(error))
        except KeyboardInterrupt:
            _fail(f"stopped; {when_stopped}", code=130)
        except BrokenPipeError:  # the reader of a pipe, such as `head`, has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except Exception as error:
            # A full disk or missing permission is not a bug, wherever it is raised.
            if (trouble := disk_trouble(error)) is None:
                raise
            _fail(trouble)

    app.run(guarded, flags_parser=parse)


def start_tensorflow(use_devices: bool = True) -> None:
    """Imports TensorFlow without its start-up messages, which would hide ours.

    TensorFlow writes them before any log level applies, so standard error is redirected during the
    import and shown if the import fails. Set TF_CPP_MIN_LOG_LEVEL to see the messages.

    Args:
      use_devices: False for a cluster, which must be joined before any device is used.
    """
    keep_few_kernels()
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return
    # Errors that matter are raised as exceptions too.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    real_stderr = os.dup(2)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            import tensorflow as tf

            if use_devices:
                tf.config.list_logical_devices()
            else:
                tf.config.list_physical_devices()
        except Exception:
            aside.seek(0)
            os.write(real_stderr, aside.read())
            raise
        finally:
            os.dup2(real_stderr, 2)
            os.close(real_stderr)


def _fail(message: str, code: int = 1) -> typing.NoReturn:
    print("error: " + printable(" ".join(message.split())), file=sys.stderr)
    sys.exit(code)
