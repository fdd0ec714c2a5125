"""A server on simulated hosts with a model of random weights, and a client of it, for fault_matrix."""

import http.client
import json
import os
import random
import shlex
import shutil
import signal
import struct
import subprocess
import threading
import time
from array import array
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = "10.0.0.1"
PORT = 8080
TIMEOUT = 15  # seconds; the least for several hosts
LIMIT = 60


def write_model(folder):
    """A Llama with random weights and the demo's tokenizer, large enough that every moment takes seconds."""
    demo = ROOT / "model/demo"
    config = json.loads((demo / "config.json").read_text())
    config |= {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 12, "num_attention_heads": 16,
               "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 8192}  # fmt: skip
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(demo / name, folder)
    hidden, inner, kv = config["hidden_size"], config["intermediate_size"], 512
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden]}
    for layer in range(config["num_hidden_layers"]):
        parts = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_proj": [hidden, hidden],
                 "self_attn.k_proj": [kv, hidden], "self_attn.v_proj": [kv, hidden], "self_attn.o_proj": [hidden, hidden],
                 "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner]}  # fmt: skip
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in parts.items()}
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * (shape[0] * shape[1] if len(shape) == 2 else shape[0])
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    source = random.Random(1)
    bits = [struct.unpack("<I", struct.pack("<f", source.uniform(-0.05, 0.05)))[0] >> 16 for _ in range(1 << 20)]
    weights, one = array("H", bits).tobytes(), array("H", [0x3F80]).tobytes()
    with open(folder / "model.safetensors", "wb") as file:
        text = json.dumps(header).encode()
        file.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            count = 2 * (shape[0] * shape[1] if len(shape) == 2 else shape[0])
            file.write(one * shape[0] if len(shape) == 1 else (weights * (count // len(weights) + 1))[:count])


class Answer:
    """One streamed completion, read by a thread."""

    def __init__(self, words, max_tokens):
        self.tokens, self.end, self.ended_at = 0, None, None
        self.body = json.dumps({"prompt": "Once upon a time " * (words // 4), "max_tokens": max_tokens, "stream": True,
                                "temperature": 0, "ignore_eos": True})  # fmt: skip
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=2 * LIMIT)
            connection.request("POST", "/v1/completions", self.body, {"Content-Type": "application/json"})
            self.end = self.end_of(connection.getresponse())
        except (OSError, http.client.HTTPException) as error:
            self.end = "no connection" if isinstance(error, ConnectionRefusedError) else "the connection ends"
        self.ended_at = time.monotonic()

    def end_of(self, response):
        if response.status != 200:
            return f"status {response.status}: {json.loads(response.read())['error']['message']}"
        for line in response:
            data = line.decode().strip().removeprefix("data: ")
            if data == "[DONE]":
                return "whole answer"
            if data.startswith("{"):
                event = json.loads(data)
                if "error" in event:
                    return "error: " + event["error"]["message"]
                self.tokens += 1
        return "the stream ends"

    def wait_for_tokens(self, count):
        wait_until(lambda: self.tokens >= count or self.end, f"{count} tokens")

    def __str__(self):
        return self.end if self.end == "whole answer" else f"{self.tokens} tokens, then {self.end or 'nothing'}"


def wait_until(condition, what, seconds=LIMIT, interval=0.02):
    """Returns the seconds that it took."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > seconds:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(interval)
    return time.monotonic() - begin


class Job:
    """mpirun with the ranks of a server."""

    def __init__(self, program, model, folder, environment=(), programs=()):
        self.log_path = folder / "log"
        self.store = folder / "store"
        self.pid_file = folder / "pid"
        # Ranks may differ in their program and their variables.
        script = folder / "rank"
        lines = [f"{rank}) {variables} exec {shlex.quote(str(path))} \"$@\" ;;" for rank, variables, path in
                 [(rank, variables, program) for rank, variables in environment]
                 + [(rank, "", path) for rank, path in programs]]  # fmt: skip
        script.write_text("#!/bin/sh\nexport OMP_NUM_THREADS=1\ncase ${OMPI_COMM_WORLD_RANK-${PMI_RANK-0}} in\n"
                          + "\n".join(lines) + f"\n*) exec {shlex.quote(str(program))} \"$@\" ;;\nesac\n")  # fmt: skip
        script.chmod(0o755)
        self.command = [str(script), "serve", "--model", str(model), "--host", ADDRESS, "--port", str(PORT), "--quiet",
                        "--timeout", str(TIMEOUT), "--max-length", "6000", "--prefill-chunk", "64", "--pid-file", str(self.pid_file),
                        "--kv-store", str(self.store), "--kv-store-min", "256"]  # fmt: skip
        self.process = None

    def start(self, launcher=("mpirun",)):
        keepalive = ["--mca", "oob_tcp_keepalive_time", "5", "--mca", "oob_tcp_keepalive_intvl", "2",
                     "--mca", "oob_tcp_keepalive_probes", "3"]  # fmt: skip
        with open(self.log_path, "wb") as log:
            arguments = [*launcher, *(keepalive if launcher[0] == "mpirun" else []), *self.command]
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        return self

    def has_ended(self):
        return self.process.poll() is not None

    def ranks(self):
        """Process ids by rank."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "comm").read_text().strip().startswith("tp-infer"):
                    variables = (folder / "environ").read_bytes().split(b"\0")
                    rank = [v.split(b"=")[1] for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
                    if rank and "Z" != (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]:
                        found[int(rank[0])] = int(folder.name)
            except OSError:
                pass
        return found

    def is_ready(self):
        try:
            connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def wait_until_ready(self):
        wait_until(lambda: self.has_ended() or self.is_ready(), "the server", interval=0.1)
        if self.has_ended():
            raise TimeoutError(f"the server has not started: {self.log()[-500:]}")

    def log(self):
        return self.log_path.read_text(errors="replace")

    def message(self, since):
        """The program's first line about the fault, else mpirun's."""
        lines = [line.strip() for line in self.log()[since:].splitlines()]
        own = [line for line in lines if line.startswith("tp-infer")]
        of_mpirun = [line for line in lines if "noticed that process" in line]
        others = [line for line in lines if line and not line.startswith("-")]
        return (own or of_mpirun or others or [""])[0]

    def end(self):
        for number in (signal.SIGCONT, signal.SIGKILL):
            for process in [self.process.pid, *self.ranks().values(), *launchers()]:
                try:
                    os.kill(process, number)
                except OSError:
                    pass
        self.process.wait()


def launchers():
    """Open MPI's processes of the hosts."""
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if comm(folder) in ("mpirun", "orted", "prted", "prterun")]


def comm(folder):
    try:
        return (folder / "comm").read_text().strip()
    except OSError:
        return ""
