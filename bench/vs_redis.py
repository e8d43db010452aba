# SPDX-License-Identifier: Apache-2.0
"""Runs redis-benchmark and `larder bench store` in turns over loopback TCP and compares values/s.

Fairness: the same number of keys and bytes on both sides, the same number of connections, and a
call of as many values as Redis gets commands in its pipeline. Both replace the values of keys that
are there (so both free the old value inside the timed part), and both find every key they get.
redis-benchmark sends one buffer again and again and throws received values away; Larder's clients
use two buffers a value in turn (--cached-buffers), and their bytes differ from lap to lap.
"""
import argparse
import csv
import io
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = {"4KiB": 4 << 10, "64KiB": 64 << 10, "256KiB": 256 << 10, "1MiB": 1 << 20}
CLIENTS = (1, 4)
DEEP = 16
DEEP_BYTES_BELOW = 256 << 10
SET_BYTES = 256 << 20  # stored values, at most
KEYS_MAX = 4096
OPS = {"set": "put_over", "get": "get_into"}


class CannotMeasure(Exception):
    pass


def run(command, timeout=600):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotMeasure(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise CannotMeasure(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Redis:
    def __init__(self, directory):
        self.port = free_port()
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--dir", directory],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                if self.command("PING") == b"+PONG":
                    return
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise CannotMeasure(f"redis-server did not answer on port {self.port}")

    def command(self, *words):
        """One inline-free RESP command; returns the first line of the answer."""
        parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        frame = b"*%d\r\n" % len(parts)
        frame += b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(frame)
            return connection.makefile("rb").readline().strip()

    def fill(self, size, keys):
        """Every key that redis-benchmark may pick is there, with a value of the right size."""
        self.command("FLUSHALL")
        script = ("local v = string.rep('x', ARGV[1]) for i = 0, ARGV[2] - 1 do "
                  "redis.call('SET', string.format('key:%012d', i), v) end "
                  "return redis.call('DBSIZE')")
        answer = self.command("EVAL", script, 0, size, keys)
        if answer != b":%d" % keys:
            raise CannotMeasure(f"filling Redis: {answer!r}")

    def measure(self, op, size, keys, clients, pipeline, requests):
        text = run(["redis-benchmark", "-h", "127.0.0.1", "-p", str(self.port), "-t", op, "-d",
                    str(size), "-c", str(clients), "-P", str(pipeline), "-n", str(requests), "-r",
                    str(keys), "--csv"])
        rows = list(csv.DictReader(io.StringIO(text)))
        return float(rows[-1]["rps"])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Larder:
    """One node for the whole run; each measurement is a bench process of its own, as
    redis-benchmark is."""

    def __init__(self, program, directory):
        self.program = program
        self.json = os.path.join(directory, "larder.json")
        self.log = os.path.join(directory, "node.log")
        self.address = f"127.0.0.1:{free_port()}"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [program, "node", "--node.listen", self.address, "--node.socket",
                 os.path.join(directory, "node.sock"), "--hot.capacity",
                 str(4 * SET_BYTES), "--node.http", "127.0.0.1:0"],
                stdout=log, stderr=subprocess.STDOUT)
        self.wait()

    def wait(self):
        host, port = self.address.split(":")
        for _ in range(600):
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        with open(self.log, encoding="utf-8", errors="replace") as log:
            raise CannotMeasure("the larder node did not come up:\n" + log.read()[-2000:])

    def measure(self, op, size_name, keys, clients, pipeline, seconds):
        name = f"tcp.{OPS[op]}.{size_name}.b{pipeline}.c{clients}"
        run([self.program, "bench", "store", "--address", self.address, "--case", name, "--keys",
             str(keys), "--set-bytes", str(SET_BYTES), "--seconds", str(seconds), "--repeat", "1",
             "--no-limits", "--cached-buffers", "--json", self.json])
        with open(self.json, encoding="utf-8") as file:
            return float(json.load(file)[0]["ops_per_s"])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def rows_of(quick):
    for size_name, size in SIZES.items():
        if quick and size_name not in ("4KiB", "1MiB"):
            continue
        for clients in CLIENTS:
            for pipeline in (1, DEEP):
                if pipeline > 1 and size >= DEEP_BYTES_BELOW:
                    continue
                for op in OPS:
                    yield op, size_name, size, clients, pipeline


def measure_row(redis, larder, row, arguments):
    op, size_name, size, clients, pipeline = row
    keys = min(KEYS_MAX, SET_BYTES // size)
    if redis.filled != size:
        redis.fill(size, keys)
        redis.filled = size
    # As many requests as make redis-benchmark run about as long as Larder does.
    trial = max(50 * clients * pipeline, 200)
    rate = redis.measure(op, size, keys, clients, pipeline, trial)
    requests = max(trial, int(rate * arguments.seconds))
    theirs, ours = [], []
    for _ in range(arguments.rounds):
        theirs.append(redis.measure(op, size, keys, clients, pipeline, requests))
        ours.append(larder.measure(op, size_name, keys, clients, pipeline, arguments.seconds))
    redis_rate, larder_rate = statistics.median(theirs), statistics.median(ours)
    return {"op": op, "size": size_name, "clients": clients, "pipeline": pipeline,
            "redis_ops_per_s": redis_rate, "larder_ops_per_s": larder_rate,
            "redis_bytes_per_s": redis_rate * size, "larder_bytes_per_s": larder_rate * size,
            "ratio": larder_rate / redis_rate if redis_rate > 0 else 0.0,
            "ahead": larder_rate > redis_rate}


def print_row(row):
    print(f"{row['op']:<4}{row['size']:>7} c{row['clients']} x{row['pipeline']:<3}"
          f"{row['redis_ops_per_s']:>12.0f}{row['redis_bytes_per_s'] / 1e9:>8.2f}"
          f"{row['larder_ops_per_s']:>12.0f}{row['larder_bytes_per_s'] / 1e9:>8.2f}"
          f"{row['ratio']:>8.2f}  {'ahead' if row['ahead'] else 'BEHIND'}", flush=True)


def measure_all(arguments):
    rows = []
    with tempfile.TemporaryDirectory(prefix="larder-vs-redis-") as directory:
        redis = Redis(directory)
        redis.filled = 0
        try:
            larder = Larder(arguments.larder, directory)
            try:
                for row in rows_of(arguments.quick):
                    rows.append(measure_row(redis, larder, row, arguments))
                    print_row(rows[-1])
            finally:
                larder.stop()
        finally:
            redis.stop()
    return rows


def main():
    parser = argparse.ArgumentParser(description="Larder against Redis over loopback TCP")
    parser.add_argument("--larder", required=True, help="the larder program")
    parser.add_argument("--json", help="write the rows to this file")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each; medians count")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one turn of one side")
    parser.add_argument("--quick", action="store_true", help="4 KiB and 1 MiB only")
    arguments = parser.parse_args()
    print(f"{'row':<18}{'Redis op/s':>12}{'GB/s':>8}{'Larder op/s':>12}{'GB/s':>8}{'ratio':>8}")
    try:
        rows = measure_all(arguments)
    except CannotMeasure as error:
        print(f"vs_redis: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    behind = [row for row in rows if not row["ahead"]]
    print(f"ahead in {len(rows) - len(behind)} of {len(rows)} rows")
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
