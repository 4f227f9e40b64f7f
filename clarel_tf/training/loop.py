"""One training phase: fit with checkpoints, history, TensorBoard and a progress bar, and resume."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tqdm

from clarel_tf.config_sections import TrainingConfig
from clarel_tf.data.split import Split
from clarel_tf.errors import ClarelError
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.losses import METRICS
from clarel_tf.training.batches import training_batches
from clarel_tf.training.checkpoints import NOT_FINITE_ADVICE, CheckpointFolder
from clarel_tf.training.distributed.distribution import Distribution
from clarel_tf.training.distributed.replicated import ReplicatedModel
from clarel_tf.training.history import CURVE_COLUMNS, read_history, write_history
from clarel_tf.training.optimizers import make_optimizer, make_schedule, schedule_value
from clarel_tf.training.process_memory import give_back_free_memory

_BUILDING_STEPS = 3
_FIRST_LOOK_SECONDS = 15.0


def train(
    model: Clarel,
    split: Split,
    classes: np.ndarray,
    settings: TrainingConfig,
    folder: Path | None,
    *,
    seed: int,
    title: str = "training",
    evaluate: Callable[[], dict[str, float]] | None = None,
    distribution: Distribution | None = None,
    later_steps: int = 0,
) -> None:
    """Trains `model` on `split` for `settings.steps` steps; resumes from the last checkpoint.

    Args:
      model: its weights are the starting point unless `folder` has a checkpoint.
      split: the training instances.
      classes: sorted labels of the training classes, one for each output of the heads.
      folder: receives `checkpoints/`, `history.csv`, `tensorboard/` and, with `evaluate`,
        `validation_curve.csv`. None for a worker other than the chief, which follows the chief.
      seed: of the batches.
      title: label of the progress bar.
      evaluate: called every `settings.evaluate_every` steps; returns the columns of the curve.
      distribution: the replicas that share each batch; None for one device.
      later_steps: of the phases after this one, for the remaining time of the run.
    """
    model.compile(optimizer=make_optimizer(settings), jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    first_step = 0
    if folder:
        checkpoints = CheckpointFolder(folder / "checkpoints")
        first_step, complaints = checkpoints.restore_latest(model)
        for complaint in complaints:
            print(complaint, file=sys.stderr)
    if distribution:
        first_step = int(distribution.from_chief([first_step])[0])
    if first_step >= settings.steps:
        return
    if first_step:
        print(f"{title}: resuming after step {first_step} of {settings.steps}")
    batches = training_batches(
        split,
        classes,
        model.text_tower,
        batch_size=settings.batch_size,
        captions=settings.captions,
        instances_per_class=settings.instances_per_class,
        similar_classes=settings.similar_classes,
        word_dropout=settings.word_dropout,
        seed=seed,
        first_step=first_step,
        steps=settings.steps,
    )
    replicated = distribution and ReplicatedModel(model, settings, distribution)
    recorders = []
    if folder:
        refresh = replicated.bring_home if replicated else None
        recorders = [
            StepRecorder(
                folder, checkpoints, settings, first_step, title, evaluate, refresh, later_steps
            )
        ]
    # The whole phase is one Keras epoch; logs and checkpoints follow the step.
    try:
        if replicated:
            replicated.fit(batches, recorders, first_step)
            return
        model.fit(
            batches,
            epochs=1,
            steps_per_epoch=settings.steps - first_step,
            shuffle=False,
            verbose=0,
            callbacks=recorders,
        )
    finally:
        for recorder in recorders:
            recorder.close()


class StepRecorder(keras.callbacks.Callback):
    """Writes history, TensorBoard events and checkpoints, and moves the progress bar."""

    def __init__(
        self,
        folder: Path,
        checkpoints: CheckpointFolder,
        settings: TrainingConfig,
        first_step: int,
        title: str,
        evaluate: Callable[[], dict[str, float]] | None = None,
        refresh: Callable[[], None] | None = None,
        later_steps: int = 0,
    ):
        """`refresh`: called before the model's weights are read, if replicas hold newer ones."""
        super().__init__()
        self._history_path = folder / "history.csv"
        self._curve_path = folder / "validation_curve.csv"
        self._evaluate, self._refresh = evaluate, refresh
        self._checkpoints, self._settings = checkpoints, settings
        self._step, self._title, self._later_steps = first_step, title, later_steps
        # Step and seconds that the speed is measured from: the first steps build the graph.
        self._mark: tuple[int, float] | None = None
        self._has_told = False
        # Rows after the checkpoint will be recorded again.
        self._rows, self._curve = (
            [row for row in read_history(path) if row["step"] <= first_step]
            for path in (self._history_path, self._curve_path)
        )
        self._seconds_before = self._rows[-1]["seconds"] if self._rows else 0.0
        self._events = tf.summary.create_file_writer(str(folder / "tensorboard"))
        self._bar = tqdm.tqdm(
            desc=title,
            total=settings.steps,
            initial=first_step,
            unit="step",
            # A log file gets occasional lines instead of a moving bar.
            mininterval=0.2 if sys.stderr.isatty() else 10.0,
        )

    def on_train_begin(self, logs: Any = None) -> None:
        self._started = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._step += 1
        # Checked at every step, to name the right one; this takes some microseconds.
        if not np.isfinite(float(logs["loss"])):
            raise ClarelError(
                f"the loss became {float(logs['loss'])} at step {self._step}; {NOT_FINITE_ADVICE}"
            )
        self._bar.update()
        self._watch_speed()
        is_last = self._step == self._settings.steps
        saves = is_last or self._step % self._settings.checkpoint_every == 0
        if saves or self._step % self._settings.log_every == 0:
            self._record({name: float(logs[name]) for name in METRICS})
        looks = self._evaluate and self._step % self._settings.evaluate_every == 0
        if self._refresh and (saves or looks):
            self._refresh()
        if looks:
            self._look_at_validation()
        if saves:
            self._checkpoints.save(self.model, self._step)
        if saves or looks:
            give_back_free_memory()

    def _watch_speed(self) -> None:
        """Tells the remaining time, once it can be known and if it is long enough to matter."""
        if self._has_told:
            return
        now = self._seconds()
        if self._mark is None:
            if self._step >= self._bar.initial + _BUILDING_STEPS:
                self._mark = self._step, now
        elif now - self._mark[1] > _FIRST_LOOK_SECONDS:
            self._has_told = True
            phase, run = (duration(seconds) for seconds in self._left())
            self._bar.write(f"{self._title}: about {phase} left, {run} for all training of the run")

    def _left(self) -> tuple[float, float]:
        """Seconds that are left of this phase, and of all phases."""
        if self._mark is None or self._step == self._mark[0]:
            return 0.0, 0.0
        of_step = (self._seconds() - self._mark[1]) / (self._step - self._mark[0])
        steps = self._settings.steps - self._step
        return of_step * steps, of_step * (steps + self._later_steps)

    def close(self) -> None:
        """Closes the progress bar and the event file, also after an error."""
        self._bar.close()
        self._events.close()

    def _seconds(self) -> float:
        """Seconds of training, including those before the run was resumed."""
        return self._seconds_before + time.monotonic() - self._started

    def _look_at_validation(self) -> None:
        assert self._evaluate is not None  # set whenever evaluate_every is
        seconds = self._seconds()
        self._curve.append({"step": self._step, **self._evaluate(), "seconds": seconds})
        write_history(self._curve_path, self._curve, CURVE_COLUMNS)
        # The clock measures only training.
        self._started += self._seconds() - seconds

    def _record(self, values: dict[str, float]) -> None:
        seconds = self._seconds()
        rate = schedule_value(make_schedule(self._settings), self._step - 1)
        self._rows.append({"step": self._step, "learning_rate": rate, **values, "seconds": seconds})
        write_history(self._history_path, self._rows)
        with self._events.as_default(step=self._step):
            for name, value in {"learning_rate": rate, **values}.items():
                tf.summary.scalar(name, value)
        self._events.flush()
        self._bar.set_postfix(
            loss=f"{values['loss']:.3f}",
            text_to_image=f"{values['image_retrieval_accuracy']:.2f}",
            run_left=duration(self._left()[1]) if self._mark else "?",
            refresh=False,
        )
        # Each row is the mean since the previous row.
        self.model.reset_metrics()


def duration(seconds: float) -> str:
    """A time to wait, as `40 s`, `12 min` or `31 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 120 * 60 else f"{seconds / 3600:.0f} h"
