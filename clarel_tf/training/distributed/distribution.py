"""`Distribution`: several devices or machines that train as one.

All workers run the same command. The chief evaluates and writes files; the others train with it,
follow its instructions, and write nothing.
"""

import contextlib
import faulthandler
import hashlib
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.models.replicas import sum_over_replicas
from clarel_tf.training.distributed.join_watch import watched
from clarel_tf.training.distributed.source_hash import software
from clarel_tf.training.distributed.tf_config import read_tf_config
from clarel_tf.training.distributed.worker_startup import meet

# Errors that TensorFlow raises when another worker ends, is stopped or cannot be reached.
_OF_OTHER_WORKERS = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
    tf.errors.UnknownError,
)


class Distribution:
    """The replicas that share a batch, in this process and in others.

    Attributes:
      strategy: of `tf.distribute`.
      replicas: number of replicas on all workers.
      workers: number of processes.
      worker: index of this process; 0 is the chief.
    """

    def __init__(self, strategy: tf.distribute.Strategy, workers: int = 1, worker: int = 0):
        self.strategy = strategy
        self.replicas = strategy.num_replicas_in_sync
        self.workers, self.worker = workers, worker

    @property
    def is_chief(self) -> bool:
        return self.worker == 0

    def __str__(self) -> str:
        shared = f"Training on {self.replicas} replica" + "s" * (self.replicas > 1)
        if self.workers == 1:
            return shared
        return f"{shared}, {self.workers} workers; this is worker {self.worker}"

    def check_batch_size(self, batch_size: int) -> None:
        """Raises ClarelError if the replicas cannot share the batch equally."""
        if batch_size % self.replicas:
            raise ClarelError(
                f"batch_size is {batch_size}, which {self.replicas} replicas cannot share equally; "
                f"give --batch_size a multiple of {self.replicas}"
            )

    def from_chief(self, arrays: Sequence[np.ndarray | int]) -> list[np.ndarray]:
        """The chief's arrays, on every worker; shapes and types must be equal on all."""
        given = [np.asarray(array) for array in arrays]
        if self.workers == 1:
            return given

        def tell(own: list[tf.Tensor]) -> list[tf.Tensor]:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            is_first = tf.equal(replica, 0)
            # One by one: TensorFlow would concatenate a list, and the types differ.
            return [sum_over_replicas(tf.where(is_first, x, tf.zeros_like(x))) for x in own]

        # Collective operations do not support unsigned integers.
        own = [array.astype("i8") if array.dtype.kind in "iu" else array for array in given]
        heard = self.compiled(tell)([tf.constant(array) for array in own])
        heard = [self.local(value).numpy() for value in heard]
        return [value.astype(array.dtype) for value, array in zip(heard, given, strict=True)]

    def compiled(self, function: Callable) -> Callable:
        """`function` on all replicas as one graph; ClarelError if a worker is gone."""

        @tf.function
        def on_replicas(*arguments: Any) -> Any:
            return self.strategy.run(function, arguments)

        def guarded(*arguments: Any) -> Any:
            with self._other_workers():
                return on_replicas(*arguments)

        return guarded

    def local(self, value: Any) -> tf.Tensor:
        """The value of the first replica in this process."""
        return self.strategy.experimental_local_results(value)[0]

    @contextlib.contextmanager
    def chief_first(self) -> Iterator[None]:
        """Runs the block on the chief first, then on the other workers."""
        if not self.is_chief:
            self.from_chief([0])
        yield
        if self.is_chief:
            self.from_chief([0])

    def check_same(self, what: Any) -> None:
        """Raises ClarelError unless `what`, ready for JSON, is equal on all workers."""
        if self.workers == 1:
            return
        text = json.dumps(what, sort_keys=True).encode("utf-8")
        own = int.from_bytes(hashlib.sha256(text).digest()[:7], "big")
        differs = int(self.from_chief([own])[0] != own)

        def count() -> tf.Tensor:
            return sum_over_replicas(tf.constant(differs))

        # All workers raise; otherwise the others would only see one disappear.
        if self.local(self.compiled(count)()).numpy():
            raise ClarelError(
                "the workers have different settings or different data; give all of them the same "
                "command and the same dataset"
            )

    def finish(self) -> None:
        """Waits for all workers, so that none mistakes the end of another for a failure."""
        self.from_chief([0])
        # All workers have arrived; from now on a worker may leave.
        with contextlib.suppress(ClarelError):
            self.from_chief([0])

    @contextlib.contextmanager
    def _other_workers(self) -> Iterator[None]:
        try:
            yield
        except _OF_OTHER_WORKERS as error:
            if self.workers == 1:
                raise
            brief = " ".join(error.message.split("aborted by:")[-1].split())[:160]
            raise ClarelError(
                f"worker {self.worker} stopped: another worker ended or cannot be reached "
                f"({brief}). Its own message says why; the same command on all workers "
                "continues from the last checkpoint"
            ) from error


def mirrored() -> Distribution:
    """All GPUs of this machine; without any, its CPU, which is one device unless split."""
    return Distribution(tf.distribute.MirroredStrategy())


def multi_worker(patience: float = 600.0) -> Distribution:
    """The workers that the environment variable TF_CONFIG names.

    Must be called before TensorFlow has done anything else.

    Args:
      patience: seconds to wait for the other workers.
    """
    addresses, worker = read_tf_config()
    print(f"Worker {worker} of 0 to {len(addresses) - 1}: waiting for the others", flush=True)
    peers = meet(addresses, worker, patience, software())
    # If TensorFlow cannot connect workers that are all alive, it would wait for an hour.
    faulthandler.dump_traceback_later(patience, exit=True)
    try:
        with watched(peers):
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        brief = " ".join(str(error).split())[:200]
        raise ClarelError(
            f"worker {worker} cannot join the other workers of TF_CONFIG: {brief}"
        ) from error
    finally:
        faulthandler.cancel_dump_traceback_later()
    # TensorFlow treats SIGTERM as a preemption notice. Here, it ends a worker.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return Distribution(strategy, len(addresses), worker)
