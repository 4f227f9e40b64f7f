"""As distributed_run.py, but one replica's copy of one weight is changed in the first phase.

python drifting_run.py mirrored|multi_worker CONFIG_FILE RUN_DIR AFTER_STEPS VALUE
"""

import sys

from clarel_tf.training.distributed.replicated import ReplicatedModel
from tests.helpers import distributed_run


def disturb(after: int, value: float) -> None:
    """Puts `value` into the last replica's copy of the first weight, after that many steps."""
    fit = ReplicatedModel.fit

    def disturbed(self, batches, callbacks, first_step=0):
        def watched():
            for number, batch in enumerate(batches):
                if first_step + number == after:
                    change(self)
                yield batch

        fit(self, watched(), callbacks, first_step)

    def change(replicated: ReplicatedModel) -> None:
        distribution = replicated._distribution
        if distribution.worker != distribution.workers - 1:
            return
        weight = replicated._twin.trainable_variables[0]._value
        copy = distribution.strategy.experimental_local_results(weight)[-1]
        copy.assign(copy * 0.0 + value)
        print("disturbed", flush=True)

    ReplicatedModel.fit = disturbed


if __name__ == "__main__":
    disturb(int(sys.argv[4]), float(sys.argv[5]))
    distributed_run.main(*sys.argv[1:4])
