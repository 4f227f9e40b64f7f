"""Signatures that run in this process: those of a run, without an export."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.serving.answers import Answer, as_array
from clarel_tf.serving.endpoints import Endpoint
from clarel_tf.serving.refusals import plain_refusal, wrong_width

Run = Callable[[Mapping[str, Any]], Mapping[str, np.ndarray]]


def call_signature(
    run: Run, specs: Mapping[str, tf.TensorSpec], inputs: Mapping[str, Any], where: str
) -> Answer:
    """The outputs of a signature for these inputs; ClarelError if it refuses them.

    Args:
      run: runs it.
      specs: of its inputs, by name.
      where: model and signature, for messages.
    """
    if set(inputs) != set(specs):
        raise ClarelError(f"{where} takes {sorted(specs)}, not {list(inputs)}")
    if "image_features" in inputs:
        found, taken = np.shape(inputs["image_features"]), specs["image_features"].shape[1]
        if len(found) == 2 and found[1] != taken:
            message = "".join(map(str, wrong_width(str(found[1]), taken)))
            raise ClarelError(f"{where}: {message}")
    try:
        outputs = run(inputs)
    except (tf.errors.OpError, TypeError, ValueError) as error:
        message = " ".join(plain_refusal(str(error)).split())
        raise ClarelError(f"{where}: {message}") from error
    return {name: as_array(value) for name, value in outputs.items()}


class EndpointsTransport:
    """Runs the functions that an export is made of; a signature is traced when it is first used."""

    number_bytes = 4

    def __init__(self, endpoints: Mapping[str, Mapping[str, Endpoint]]):
        """Takes the signatures of each model, by name."""
        self._endpoints = endpoints
        self._graphs: dict[tuple[str, str], Run] = {}
        self._lock = threading.Lock()

    def predict(
        self, model: str, signature: str, inputs: Mapping[str, Any], deadline: object
    ) -> Answer:
        """Runs one signature of a model; the deadline is ignored."""
        known = self._endpoints[model]
        if signature not in known:
            raise ClarelError(f"{model} has no signature {signature!r}; it has {list(known)}")
        specs = {spec.name: spec for spec in known[signature][1]}
        run = self._run(model, signature)
        return call_signature(run, specs, inputs, f"{model}, {signature}")

    def _run(self, model: str, signature: str) -> Run:
        with self._lock:
            if (model, signature) not in self._graphs:
                self._graphs[model, signature] = _as_run(*self._endpoints[model][signature])
            return self._graphs[model, signature]


def _as_run(function: Callable[..., Answer], specs: list[tf.TensorSpec]) -> Run:
    graph = tf.function(function, input_signature=specs, autograph=False)

    def run(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        # With the expected type, because an empty list has no type.
        outputs = graph(*(tf.constant(inputs[spec.name], spec.dtype) for spec in specs))
        return {name: value.numpy() for name, value in outputs.items()}

    return run
