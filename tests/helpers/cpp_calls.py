"""Asks SavedModels through the C++ loader, in a process without TensorFlow's Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.helpers.programs import ROOT

LIBRARY = Path(tf.sysconfig.get_lib())


def signatures(path: Path) -> dict:
    """The SignatureDefs of a SavedModel."""
    message = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    return dict(message.meta_graphs[0].signature_def)


def ask_cpp(path: Path, tmp_path: Path, calls: list[tuple[str, dict]]) -> list[dict]:
    """Answers of the C++ loader to (signature, inputs by name); strings go as hexadecimal bytes."""
    known, requests = signatures(path), []
    for number, (name, inputs) in enumerate(calls):
        feeds = {}
        for key, value in inputs.items():
            tensor = known[name].inputs[key].name
            if isinstance(value, list):
                feeds[tensor] = [(v if isinstance(v, bytes) else v.encode()).hex() for v in value]
            else:
                np.save(tmp_path / f"{number}_{key}.npy", value)
                feeds[tensor] = str(tmp_path / f"{number}_{key}.npy")
        fetches = {key: info.name for key, info in known[name].outputs.items()}
        requests.append({"feeds": feeds, "fetches": fetches})
    (tmp_path / "request.json").write_text(json.dumps({"path": str(path), "calls": requests}))
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tests/helpers/cpp_loader.py"),
            str(LIBRARY),
            str(tmp_path / "request.json"),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
