"""The cluster that the environment variable TF_CONFIG describes."""

import json
import os
import re
from typing import Any

from clarel_tf.errors import ClarelError

_JOBS = ("chief", "worker")


class _Unusable(ValueError):
    """An error in TF_CONFIG."""


def read_tf_config() -> tuple[list[str], int]:
    """(addresses of the workers, index of this worker) from TF_CONFIG; the chief has index 0."""
    try:
        return _cluster(_parsed(os.environ.get("TF_CONFIG")))
    except _Unusable as error:
        raise ClarelError(
            "--distribute=multi_worker needs the environment variable TF_CONFIG, such as "
            '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, '
            '"task": {"type": "worker", "index": 0}}, with another index on each worker; '
            f"here {error}"
        ) from None


def _parsed(text: str | None) -> dict[str, Any]:
    if text is None:
        raise _Unusable("it is not set")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        raise _Unusable("it is not valid JSON") from None
    for name in ("cluster", "task"):
        if not isinstance(config, dict) or not isinstance(config.get(name), dict):
            raise _Unusable(f"it has no {name!r} in braces")
    return config


def _cluster(config: dict[str, Any]) -> tuple[list[str], int]:
    jobs, task = config["cluster"], config["task"]
    for job, addresses in jobs.items():
        if job not in _JOBS:
            raise _Unusable(f"its cluster has a job {job!r}; only chief and worker are supported")
        if not isinstance(addresses, list):
            raise _Unusable(f"the addresses of its job {job!r} are not a list")
    if len(jobs.get("chief", [])) > 1:
        raise _Unusable("its cluster has more than one chief")
    together = jobs.get("chief", []) + jobs.get("worker", [])
    for address in together:
        _check_address(address)
        if together.count(address) > 1:
            raise _Unusable(f"two workers have the address {address!r}")
    kind, index = task.get("type"), _index(task.get("index"))
    if not isinstance(kind, str) or kind not in jobs:
        raise _Unusable(f"the type of its task is {kind!r}, which is not a job of its cluster")
    if index >= len(jobs[kind]):
        raise _Unusable(f"the index of its task is {index}, but {kind!r} has {len(jobs[kind])}")
    return together, index + (len(jobs.get("chief", [])) if kind == "worker" else 0)


def _index(value: Any) -> int:
    """An index, given as a number or as a string of digits, both of which TensorFlow accepts."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,6}", value):
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _Unusable(f"the index of its task is {value!r}, which is not the number of a worker")
    return value


def _check_address(address: Any) -> None:
    if not isinstance(address, str):
        raise _Unusable(f"the address {address!r} is not a string")
    host, _, port = address.rpartition(":")
    if not host or not re.fullmatch("[0-9]+", port):
        raise _Unusable(f"the address {address!r} is not host:port")
    if len(port) > 5 or not 1 <= int(port) <= 65535:
        raise _Unusable(f"the port of {address!r} is not between 1 and 65535")
    if not re.fullmatch(r"\[[0-9a-fA-F:.]+\]|[^\s\x00-\x1f:\[\]/@]+", host):
        raise _Unusable(f"the host of {address!r} is not a valid name (IPv6 goes in [brackets])")
    try:
        host.encode("idna")
    except UnicodeError:
        raise _Unusable(f"the host of {address!r} is not a valid name") from None
