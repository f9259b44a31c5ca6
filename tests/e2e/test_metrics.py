"""`attach --export` and `--textfile`: what Prometheus reads about a recorded process, and hostile clients."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from conftest import PYTHON, ROOT, note_of_set_up, spawning, the_program, wait_until

FOLDER = ROOT / "build" / "clients"
if not FOLDER.exists():
    pytest.skip(f"no readers of Prometheus's formats ({note_of_set_up('no-clients')})", allow_module_level=True)
sys.path.append(str(FOLDER))

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families as read_text  # noqa: E402

PROGRAM = """
import ctypes, json, os, sys, torch, torch.distributed as dist
device = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(device)
dist.init_process_group("nccl")
other = dist.new_group([0, 1])
net = torch.nn.Linear(1000, 1000).cuda()
optimizer = torch.optim.Adam(net.parameters())
kept = []

def step():
    kept.append(net(torch.ones(500, 1000, device="cuda")).relu())
    kept[-1].sum().backward()
    optimizer.step()
    optimizer.zero_grad()

for number in range(3):
    step()
small, large = torch.zeros(1000, device="cuda"), torch.zeros(2000, device="cuda")
for number in range(5):
    dist.all_reduce(small)
dist.all_gather_into_tensor(large, small, group=other)
try:
    torch.empty(1 << 46, device="cuda")
except torch.OutOfMemoryError:
    pass
at = ctypes.c_void_p()
assert ctypes.CDLL(None).cudaMalloc(ctypes.byref(at), ctypes.c_size_t(64 << 20)) == 0

def tell():
    stats = torch.cuda.memory_stats(device)
    names = {"allocated": "allocated_bytes", "reserved": "reserved_bytes"}
    told = {f"gpumem_{name}_bytes": stats[f"{stat}.all.current"] for name, stat in names.items()}
    told |= {f"gpumem_peak_{name}_bytes": stats[f"{stat}.all.peak"] for name, stat in names.items()}
    print(json.dumps(told), flush=True)

tell()
for line in sys.stdin:
    step()
    tell()
"""

HOLDS = """
import sys, torch
held = [torch.empty(1 << 20, dtype=torch.uint8, device="cuda") for _ in range(7)]
print("held", flush=True)
sys.stdin.readline()
"""


class Exporter:
    """A running `gpumem attach PID --export`."""

    def __init__(self, start, gpumem, pid, *words, address=":0"):
        words = [gpumem, "attach", pid, f"--export={address}", *words]
        self.process = start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.said = [self.process.stdout.readline()]
        while not self.said[-1].startswith("until"):
            self.said.append(self.process.stdout.readline())
            assert self.said[-1], (self.said, self.process.stderr.read())
        (self.url,) = [line.split()[1] for line in self.said if line.startswith("serving")]
        host, port = re.fullmatch(r"http://(.*):(\d+)/metrics", self.url).groups()
        self.place = (host.strip("[]"), int(port))

    def get(self, path="/metrics", accept="", method="GET"):
        """(status, content type, text)"""
        request = urllib.request.Request(self.url.replace("/metrics", path), headers={"Accept": accept}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read().decode()

    def samples(self, accept=""):
        """{name: [(labels, value)]}"""
        status, kind, text = self.get(accept=accept)
        assert status == 200
        reader = read_open_metrics if "openmetrics" in kind else read_text
        found = {}
        for family in reader(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found


@pytest.fixture(scope="module")
def recorded(gpumem, tmp_path_factory):
    """A process that `gpumem run` records: its exporter, and step() -> PyTorch's own figures after one more step."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "program.py").write_text(PROGRAM)
    words = [gpumem, "run", "--sim=h100-80gbx2", "--rank=0", "--world=2", "-o", folder / "run.gpumem", "--", PYTHON, folder / "program.py"]
    with spawning() as start:
        run = start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        true = json.loads(run.stdout.readline())
        exporter = Exporter(start, gpumem, the_program(run.pid))

        def step():
            run.stdin.write("\n")
            run.stdin.flush()
            exporter.true = json.loads(run.stdout.readline())
            return exporter.true

        exporter.pid, exporter.true, exporter.step = the_program(run.pid), true, step
        yield exporter


# ---- figures ----


def test_figures_are_pytorchs_own_and_follow_the_program(recorded):
    def figures():
        found = recorded.samples()
        return {name: value for name in recorded.true for _, value in found[name]}

    assert recorded.said[0].startswith(f"process {recorded.pid} is recorded already, to ")
    assert figures() == recorded.true
    before, after = recorded.true, recorded.step()
    assert after != before
    wait_until(lambda: figures() == after)  # an answer may be used again for a moment


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"])
def test_both_formats_are_read_and_say_the_same(recorded, accept):
    status, kind, text = recorded.get(accept=accept)
    assert status == 200 and ("openmetrics" in kind) == bool(accept) == text.endswith("# EOF\n")
    found = recorded.samples(accept)
    assert {labels["pid"] for samples in found.values() for labels, _ in samples} == {str(recorded.pid)}
    categories = {labels["category"]: value for labels, value in found["gpumem_category_bytes"]}
    assert sum(categories.values()) == found["gpumem_allocated_bytes"][0][1]
    assert categories["parameter"] == 4_004_352 and 0 <= categories["optimizer_state"] - 2 * 4_004_352 < 2048
    assert found["gpumem_out_of_memory_total"][0][1] == 1 and found["gpumem_step"][0][1] >= 3
    assert found["gpumem_recording_gaps"][0][1] == 0  # it still runs, which is no gap


def test_memory_of_other_libraries_and_calls_of_communicators_are_exported(recorded):
    found = recorded.samples()
    libraries = {labels["library"]: value for labels, value in found["gpumem_library_bytes"]}
    assert 64 << 20 in libraries.values(), libraries
    calls = {(labels["communicator"], labels["kind"]): value for labels, value in found["gpumem_collective_calls_total"]}
    sent = {(labels["communicator"], labels["kind"]): value for labels, value in found["gpumem_collective_sent_bytes_total"]}
    received = {(labels["communicator"], labels["kind"]): value for labels, value in found["gpumem_collective_received_bytes_total"]}
    (reduce,) = [key for key in calls if key[1] == "all_reduce"]
    (gather,) = [key for key in calls if key[1] == "all_gather"]
    assert (calls[reduce], sent[reduce], received[reduce]) == (5, 20000, 20000)
    assert (calls[gather], sent[gather], received[gather]) == (1, 4000, 8000) and gather[0] != reduce[0]
    assert {labels["ranks"] for labels, _ in found["gpumem_collective_calls_total"]} == {"2"}


# ---- clients ----


def exchange(place, data):
    """What the server answers to these bytes."""
    with socket.create_connection(place, timeout=600) as connection:
        connection.sendall(data)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                answer += piece
    return answer.decode(errors="replace")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", 200),
        (b"GET /metrics?name=x HTTP/1.0\n\n", 200),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n123456789", 405),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics\r\n\r\n", 400),
        (b"GET  HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/2.0\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"\x00" * 100, 400),
        (b"\xff" * 50 + b"\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000, 431),
        (b"GET /" + b"x" * 9000, 431),
        (b"GET /" + b"x" * 1000 + b" HTTP/1.1\r\n\r\n", 400),
    ],
)
def test_requests_are_answered_or_refused(recorded, data, status):
    answer = exchange(recorded.place, data)
    assert answer.startswith(f"HTTP/1.1 {status} "), answer[:200]
    assert "Connection: close\r\n" in answer and "root:" not in answer
    length = int(re.search(r"Content-Length: (\d+)", answer)[1])
    assert len(answer.partition("\r\n\r\n")[2].encode()) == length


def test_head_has_no_body(recorded):
    answer = exchange(recorded.place, b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert answer.startswith("HTTP/1.1 200 ") and answer.endswith("\r\n\r\n")


def test_slow_clients_do_not_keep_others_waiting(recorded):
    """More clients than the server accepts at once send nothing, send little, or read nothing."""
    with contextlib.ExitStack() as open_ones:
        for number in range(60):
            connection = open_ones.enter_context(socket.create_connection(recorded.place, timeout=600))
            connection.sendall([b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n"][number % 3])
        assert recorded.get()[0] == 200
    for _ in range(30):  # and clients that disconnect immediately
        socket.create_connection(recorded.place, timeout=600).close()
    assert recorded.get()[0] == 200
    assert len(os.listdir(f"/proc/{recorded.process.pid}/fd")) < 60


def test_scraping_in_a_loop_does_not_stop_the_program(recorded):
    """The exporter does not trace the process: a scrape does not need it."""
    for _ in range(20):
        recorded.get()
    status = open(f"/proc/{recorded.pid}/status").read()
    assert "TracerPid:\t0\n" in status
    maps = [os.readlink(f"/proc/{recorded.process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{recorded.process.pid}/fd") if fd != "x"]
    assert not [path for path in maps if path.endswith("/mem")]
    assert recorded.step() is not None


# ---- a separate process ----


@pytest.fixture
def holds(spawn, sim_env, tmp_path):
    (tmp_path / "holds.py").write_text(HOLDS)
    process = spawn([PYTHON, tmp_path / "holds.py"], env=sim_env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout.readline() == "held\n"
    return process


def test_what_cannot_be_served_is_refused_before_the_process_is_touched(holds, recorded, run_gpumem, tmp_path):
    pid, port = holds.pid, recorded.place[1]
    for words, status, said in (
        ([f"--export=:{port}"], 4, "the port is in use"),
        (["--export=:99999"], 2, "no address to listen at"),
        (["--export=localhost"], 2, "no address to listen at"),
        (["--export=::1:80"], 2, "no address to listen at"),
        (["--export="], 2, "no address to listen at"),
        (["--export=no.such.host.invalid:80"], 2, "name an address of this machine"),
        (["--export=192.0.2.1:0"], 4, "cannot listen there"),
        (["--textfile=out.txt"], 2, "ends in .prom"),
        (["--export=:0", "--json"], 2, "--json: not with --export"),
        (["--export=:0", "--interval=5"], 2, "only with --textfile"),
        (["--textfile=x.prom", "--interval=0"], 2, "out of range"),
    ):
        answer = run_gpumem("attach", pid, *words, cwd=tmp_path).check(status)
        assert said in answer.err and answer.err.count("\n") == 1, (words, answer.err)
    assert "not recorded" in run_gpumem("top", pid).check(4).err


def test_an_exporter_attaches_serves_and_ends_with_the_process(holds, spawn, gpumem, run_gpumem, tmp_path):
    recording, text = tmp_path / "run.gpumem", tmp_path / "one.prom"
    exporter = Exporter(spawn, gpumem, holds.pid, "-o", recording, "--timeout=600", f"--textfile={text}", "--interval=1")
    assert exporter.said[0].startswith("recording process") and exporter.url.startswith("http://127.0.0.1:")
    found = exporter.samples()
    assert found["gpumem_allocated_bytes"] == [({"pid": str(holds.pid), "device": "0"}, 7 << 20)]
    wait_until(text.exists)
    written = {sample.name: sample.value for family in read_text(text.read_text()) for sample in family.samples}
    assert written["gpumem_allocated_bytes"] == 7 << 20 and text.stat().st_mode & 0o777 == 0o644
    # A signal ends the exporter, and not the recording.
    exporter.process.send_signal(signal.SIGTERM)
    assert exporter.process.wait(600) == 0 and not text.exists()
    again = Exporter(spawn, gpumem, holds.pid)
    assert again.samples()["gpumem_allocated_bytes"][0][1] == 7 << 20
    holds.communicate("\n", timeout=600)
    out, err = again.process.communicate(timeout=600)
    assert (again.process.returncode, out, err) == (0, f"process {holds.pid} has ended\n", "")
    run_gpumem("info", recording).check()


LATE = """
import sys
print("begun", flush=True)
sys.stdin.readline()
import torch
held = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_process_that_has_used_no_device_has_figures_when_it_does(spawn, gpumem, tmp_path):
    (tmp_path / "late.py").write_text(LATE)
    text = tmp_path / "late.prom"
    words = [gpumem, "run", "--sim", "-o", tmp_path / "run.gpumem", "--", PYTHON, tmp_path / "late.py"]
    run = spawn(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert run.stdout.readline() == "begun\n"
    exporter = Exporter(spawn, gpumem, the_program(run.pid), "--timeout=600", f"--textfile={text}", "--interval=1")
    assert "has used no device so far" in exporter.said[0]
    status, _, said = exporter.get()
    assert status == 503 and "there are no figures yet" in said and not text.exists()
    run.stdin.write("\n")
    run.stdin.flush()
    assert run.stdout.readline() == "held\n"
    assert exporter.samples()["gpumem_allocated_bytes"][0][1] == 3 << 20
    wait_until(text.exists)
    run.communicate("\n", timeout=600)
    assert exporter.process.wait(600) == 0 and not text.exists()


# ---- Prometheus itself ----


@pytest.mark.long
def test_promtool_finds_no_fault(recorded):
    if not shutil.which("promtool"):
        pytest.skip("no promtool on this machine (Debian: prometheus)")
    done = subprocess.run(["promtool", "check", "metrics"], input=recorded.get()[2], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.long
def test_a_real_prometheus_scrapes_it(recorded, spawn, tmp_path):
    program = shutil.which("prometheus")
    if not program:
        pytest.skip("no prometheus on this machine (Debian: prometheus)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [{"job_name": "gpumem", "static_configs": [{"targets": ["%s:%d" % recorded.place]}]}]}
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    words = [program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"]
    spawn(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def query(text):
        url = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.request.quote(text)}"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=60) as answer:
            return [float(one["value"][1]) for one in json.loads(answer.read())["data"]["result"]]
        return []

    wait_until(lambda: query("gpumem_allocated_bytes") == [recorded.true["gpumem_allocated_bytes"]])
    assert query("up") == [1.0]
    assert query("sum by (device) (gpumem_category_bytes) - on (device) gpumem_allocated_bytes") == [0.0]
    assert query('sum(gpumem_collective_sent_bytes_total{kind="all_reduce"})') == [20000.0]
