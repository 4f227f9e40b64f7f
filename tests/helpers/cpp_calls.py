"""Asks SavedModels through the C++ loader, in a process without TensorFlow's Python."""

import json
import os
import subprocess
import sys
import tempfile
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
    return _loader().answers({"path": str(path), "calls": requests})


class _Loader:
    """A process with the loader; it reads requests until this process ends."""

    def __init__(self):
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, open as long as the process
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/helpers/cpp_loader.py"), str(LIBRARY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )

    def answers(self, request: dict) -> list[dict]:
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self._errors.seek(0)
            raise AssertionError(self._errors.read()[-2000:])
        return json.loads(line)


_started: list[_Loader] = []


def _loader() -> _Loader:
    """The loader of this process: to start it and to load a model takes seconds each time."""
    if not _started or _started[0].process.poll() is not None:
        _started[:] = [_Loader()]
    return _started[0]
