"""A worker that meets the others, and may then stay behind instead of joining the cluster.

python joining_run.py meet|join|stay_behind [SOFTWARE]
"""

import sys
import time

from clarel_tf.errors import ClarelError


def main(what: str, software: str = "") -> None:
    if what == "meet":
        from clarel_tf.training.distributed.join_watch import watched
        from clarel_tf.training.distributed.tf_config import read_tf_config
        from clarel_tf.training.distributed.worker_startup import meet

        addresses, own = read_tf_config()
        print("here", flush=True)
        with watched(meet(addresses, own, 600.0, software)):
            print("met", flush=True)
        print("joined", flush=True)
        return
    import tensorflow as tf

    from clarel_tf.training.distributed.distribution import multi_worker

    def stay_behind() -> None:
        print("met", flush=True)
        time.sleep(600)

    if what == "stay_behind":
        tf.distribute.MultiWorkerMirroredStrategy = stay_behind
    distribution = multi_worker()
    distribution.finish()
    print("joined", flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ClarelError as error:
        sys.exit(f"error: {error}")
