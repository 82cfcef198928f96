"""Two processes of MultiWorkerMirroredStrategy on this machine: ``run`` starts them.

Each is this file run as a program. It takes one step, and prints what the function of gradients
saw and what became of the weights.
"""

import json
import pathlib
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent


def run(timeout, env):
    """Start both processes; return the report of each."""
    addresses = [f"localhost:{port}" for port in free_ports(2)]
    workers = [start(index, addresses, env) for index in range(2)]
    try:
        return [report_of(worker, timeout) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def start(index, addresses, env):
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    return subprocess.Popen(
        [sys.executable, __file__],
        cwd=ROOT,
        env={**env, "TF_CONFIG": json.dumps(config)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def report_of(worker, timeout):
    out, err = worker.communicate(timeout=timeout)
    assert worker.returncode == 0, err[-3000:]
    return json.loads(out.splitlines()[-1])


def main():
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    import keras

    import gradlab as gl

    with strategy.scope():
        weights = tf.Variable([1.0, 1.0])
        seen = []

        def noting(gradients):
            seen.extend(gradients)
            return gl.clip_by_global_norm(gradients, 1.0)

        optimizer = gl.transform_gradients(keras.optimizers.SGD(1.0), noting)
        optimizer.build([weights])

    @tf.function(autograph=False)
    def step():
        return strategy.run(replica)

    def replica():
        index = tf.distribute.get_replica_context().replica_id_in_sync_group
        mine = tf.gather(tf.constant([[3.0, 0.0], [0.0, 4.0]]), index)
        optimizer.apply([mine], [weights])
        return seen[-1]

    summed = step()
    print(json.dumps({"summed": summed.numpy().tolist(), "weights": weights.numpy().tolist()}))


if __name__ == "__main__":
    main()
