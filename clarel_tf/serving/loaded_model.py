"""`LoadedModel`, a SavedModel in a session, as a model server has it.

`tf.saved_model.load` makes Python objects of all functions in the graph; a session imports them in
C++, which takes a third of the time. Grappler, which rewrites graphs, is off: it needs longer than
it saves in a process of some thousand requests.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

_INIT = "__saved_model_init_op"  # the signature of what is run once, to fill tables


class LoadedModel:
    """A SavedModel; threads may share it.

    Attributes:
      signatures: for each signature, its inputs by name.
    """

    def __init__(self, path: Path):
        message = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
        [meta] = message.meta_graphs
        config = tf.compat.v1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        with graph.as_default():
            saver = tf.compat.v1.train.import_meta_graph(meta)
            saver.restore(self._session, os.fspath(path / "variables" / "variables"))
        known = dict(meta.signature_def)
        if _INIT in known:
            files = {
                asset.tensor_info.name: os.fspath(path / "assets" / asset.filename)
                for asset in meta.asset_file_def
            }
            operation = graph.get_operation_by_name(known.pop(_INIT).outputs[_INIT].name)
            self._session.run(operation, files)
        self._known = known
        self.signatures = {
            name: {key: _spec(key, info) for key, info in signature.inputs.items()}
            for name, signature in known.items()
        }

    def run(self, signature: str, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The outputs of a signature by name."""
        known, specs = self._known[signature], self.signatures[signature]
        feeds = {
            known.inputs[name].name: np.asarray(value, specs[name].dtype.as_numpy_dtype)
            for name, value in inputs.items()
        }
        fetches = {name: info.name for name, info in known.outputs.items()}
        return self._session.run(fetches, feeds)


def _spec(name: str, info: Any) -> tf.TensorSpec:
    return tf.TensorSpec(tf.TensorShape(info.tensor_shape), tf.as_dtype(info.dtype), name)
