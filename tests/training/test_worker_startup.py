"""Workers that meet, do not come, are gone again or run other software; real processes."""

import concurrent.futures
import contextlib
import re
import shutil
import signal
import socket
import threading
import time

import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.training.distributed.source_hash import differences, source_hash
from clarel_tf.training.distributed.worker_startup import meet
from tests.helpers.programs import ROOT
from tests.helpers.workers import (
    HELPERS,
    ended_after,
    error_line,
    free_addresses,
    processes,
    start_worker,
)

SCRIPT = HELPERS / "joining_run.py"


def port(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


def wait_for_line(process, line: str) -> None:
    assert any(said == f"{line}\n" for said in process.stdout)


def test_workers_meet():
    """Three of them, one late; then somebody else can listen at each port, as TensorFlow must."""
    addresses = free_addresses(3)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        met = [pool.submit(meet, addresses, own, 30.0) for own in (0, 2)]
        time.sleep(0.5)
        assert not any(one.done() for one in met)
        met.append(pool.submit(meet, addresses, 1, 30.0))
        all_peers = [one.result(timeout=30) for one in met]
    for address in addresses:
        socket.create_server(("", port(address))).close()
    for peers in all_peers:
        peers.close()


def test_all_join(tmp_path):
    with processes([SCRIPT, "meet", "x=1"], tmp_path, workers=3) as started:
        for process in started:
            out, err = process.communicate(timeout=30)
            assert process.returncode == 0, err
            assert out.splitlines() == ["here", "met", "joined"]


def test_a_worker_that_does_not_come_is_named():
    addresses = free_addresses(2)
    # Somebody else has its port, and answers nothing.
    with socket.create_server(("127.0.0.1", port(addresses[0]))):
        with pytest.raises(ClarelError, match=r"waited 1 seconds for worker 0 \(127.0.0.1:\d+\)"):
            meet(addresses, 1, patience=1.0)
        with pytest.raises(ClarelError, match=r"worker 0 cannot listen at .*: Address already"):
            meet(addresses, 0, patience=1.0)


def test_strangers_do_not_disturb(tmp_path):
    """Nonsense, nothing, half a hello, an endless line, worker numbers that are none of ours."""
    addresses = free_addresses(2)
    said = [b"", b"GET / HTTP/1.1\r\n\r\n", b"clarel_tf wor", b"1\n", b"7\n", b"-1\n", b"\xff\n"]
    said += [b"clarel_tf worker 0 x=1\n", b"clarel_tf worker 7 x=1\n", b"a" * 1_000_000]
    with contextlib.ExitStack() as stack:
        command = [SCRIPT, "meet", "x=1"]
        first = start_worker(command, tmp_path, addresses, 0)
        stack.enter_context(ended_after([first]))
        wait_for_line(first, "here")
        time.sleep(0.3)
        for words in said * 10:
            stranger = socket.create_connection(("127.0.0.1", port(addresses[0])), timeout=5)
            stack.enter_context(stranger)
            with contextlib.suppress(OSError):
                stranger.sendall(words)
        second = start_worker(command, tmp_path, addresses, 1)
        stack.enter_context(ended_after([second]))
        for process in (first, second):
            out, err = process.communicate(timeout=30)
            assert process.returncode == 0, err
            assert out.endswith("joined\n")


def test_a_worker_that_dies_while_another_is_awaited_is_named(tmp_path):
    addresses = free_addresses(3)
    started = [start_worker([SCRIPT, "meet"], tmp_path, addresses, index) for index in (0, 1)]
    with ended_after(started):
        for process in started:
            wait_for_line(process, "here")
        time.sleep(1.5)
        started[1].kill()
        message = error_line(started[0], timeout=10)
    assert message.startswith(f"error: worker 1 ({addresses[1]}) ended while the workers were")


def test_all_say_which_worker_runs_other_software(tmp_path):
    """Also one that is told of it by another before it has met them all."""
    addresses = free_addresses(3)
    usual, other = "python=3 keras=3.15 sources=ab", "python=3 keras=3.16 sources=cd"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        by_worker = (usual, other, usual)
        met = [pool.submit(meet, addresses, i, 30.0, text) for i, text in enumerate(by_worker)]
        for one in met:
            with pytest.raises(ClarelError) as error:
                one.result(timeout=30)
            assert str(error.value) == (
                f"worker 1 ({addresses[1]}) runs other software than the others: keras 3.16 "
                "instead of 3.15, the source files of clarel_tf, hash cd instead of ab. Install "
                "the same on all workers"
            )


def test_a_worker_of_an_older_release_is_named():
    addresses = free_addresses(2)
    is_over = threading.Event()

    def old_worker() -> None:
        """Calls with its number, and answers so when it is called."""
        with socket.create_server(("", port(addresses[1]))) as server:
            server.settimeout(0.1)
            while not is_over.is_set():
                with contextlib.suppress(OSError, ValueError):
                    calling = socket.create_connection(("127.0.0.1", port(addresses[0])))
                    with calling:
                        calling.sendall(b"1\n")
                with contextlib.suppress(OSError, ValueError):
                    connection, _ = server.accept()
                    with connection:
                        int(connection.recv(16))
                        connection.sendall(b"1\n")

    thread = threading.Thread(target=old_worker)
    thread.start()
    try:
        with pytest.raises(ClarelError, match=r"worker 1 \(.*\) runs an older release"):
            meet(addresses, 0, patience=20.0)
    finally:
        is_over.set()
        thread.join()


def test_most_workers_are_right_and_the_chief_wins_a_tie():
    assert differences({0: "a=1", 1: "a=1"}) == {}
    assert differences({1: "a=2", 0: "a=1"}) == {1: "a 2 instead of 1"}
    assert differences({0: "a=1", 1: "a=2", 2: "a=2"}) == {0: "a 1 instead of 2"}
    assert differences({0: "a=1", 1: ""}) == {1: "a unknown instead of 1"}


def test_the_hash_depends_on_names_and_contents(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.py").write_text("x = 1\n")
    (tmp_path / "notes.txt").write_text("nothing to run")
    hashes = [source_hash(tmp_path)]
    (tmp_path / "notes.txt").write_text("other notes")
    assert source_hash(tmp_path) == hashes[0]
    (tmp_path / "sub" / "a.py").write_text("x = 2\n")
    hashes.append(source_hash(tmp_path))
    (tmp_path / "sub" / "a.py").rename(tmp_path / "sub" / "b.py")
    hashes.append(source_hash(tmp_path))
    assert len(set(hashes)) == 3


@pytest.mark.slow
def test_a_flipped_sign_on_one_worker_is_noticed(tmp_path, demo_data_dir):
    for worker in range(2):
        folder = tmp_path / str(worker)
        shutil.copytree(ROOT / "clarel_tf", folder / "clarel_tf")
        shutil.copy(ROOT / "train_main.py", folder)
    losses = tmp_path / "1" / "clarel_tf" / "models" / "losses.py"
    text = losses.read_text()
    losses.write_text(re.sub(r"return tf\.reduce_mean\(", "return -tf.reduce_mean(", text, count=1))
    assert losses.read_text() != text
    command = [tmp_path / "{worker}" / "train_main.py", f"--data_dir={demo_data_dir}"]
    command += ["--config=small", "--distribute=multi_worker", f"--run_dir={tmp_path / 'run'}"]
    with processes(command, tmp_path, workers=2) as started:
        messages = [error_line(process, timeout=120) for process in started]
    assert messages[0] == messages[1]
    assert re.match(
        r"error: worker 1 \(.*\) runs other software .*: the source files of clarel_tf, hash \w+ "
        r"instead of \w+\. Install the same on all workers",
        messages[0],
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("where", ["at the meeting", "in TensorFlow"])
def test_a_worker_that_is_gone_is_named_within_a_minute(tmp_path, where, how):
    """At the meeting a third one is awaited; in TensorFlow, all have met and one is not joining."""
    addresses = free_addresses(3)
    roles = {0: "join", 1: "join"} if where == "at the meeting" else {}
    roles = roles or {0: "join", 1: "stay_behind", 2: "join"}
    started = [start_worker([SCRIPT, role], tmp_path, addresses, i) for i, role in roles.items()]
    with ended_after(started):
        if where == "in TensorFlow":
            wait_for_line(started[1], "met")
        time.sleep(20 if where == "at the meeting" else 5)
        assert all(process.poll() is None for process in started)
        began = time.monotonic()
        started[1].send_signal(how)
        for survivor in (started[0], *started[2:]):
            message = error_line(survivor, timeout=60)
            seconds = time.monotonic() - began
            assert message.startswith(f"error: worker 1 ({addresses[1]}) "), message
            print(f"{how.name} {where}: named after {seconds:.1f} s")
            assert seconds < (5 if how == signal.SIGKILL else 50)


def test_what_comes_together_with_the_hello_counts():
    """All in one packet, and nothing after it."""
    addresses = free_addresses(2)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        met = pool.submit(meet, addresses, 0, 10.0)
        with socket.create_server(("127.0.0.1", port(addresses[1]))) as server:
            while True:
                with contextlib.suppress(ConnectionRefusedError):
                    connection = socket.create_connection(("127.0.0.1", port(addresses[0])))
                    break
            connection.sendall(b"clarel_tf worker 1 \nhere\nready\n")
            caller, _ = server.accept()
            met.result(timeout=10).close()
        connection.close()
        caller.close()
