"""servers.py: starts the HTTP servers of the comparison, with equal paths and limits.

The paths are those of bench/http/server.c. nginx has no /json: without third-party modules it
cannot return a body. Its `return` reads a body and discards it (/discard), after the answer if it
is long. A server listens on a free port of 127.0.0.1, and dies with the process that started it.
"""

import contextlib
import ctypes
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WEFT = ROOT / "build" / "release" / "weft-http-bench"
GO = ROOT / "build" / "bench" / "http" / "go-http"
FLOOD = ROOT / "build" / "release" / "weft-flood"
START_SECONDS = 10
BIG_SIZE = 1 << 30

NGINX = """
{user}
daemon off;
worker_processes 1;
worker_rlimit_nofile {files};
pid {folder}/pid;
error_log {folder}/error.log crit;
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    default_type text/plain;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000000;
    keepalive_timeout {idle}s;
    client_header_timeout {header}s;
    client_body_timeout 30s;
    send_timeout 30s;
    client_max_body_size 8m;
    large_client_header_buffers 2 8k;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        listen 127.0.0.1:{proxy_port} proxy_protocol backlog=4096;
        {tls}
        root {folder}/served;
        location = /hello {{ return 200 "hello, world\\n"; }}
        location = /discard {{ return 200 "hello, world\\n"; }}
        location = /upload {{ proxy_pass http://127.0.0.1:{port}/hello; }}
        location = /json {{ proxy_pass http://127.0.0.1:{port}/hello; }}
        location = /big {{ alias {folder}/served/big; }}
        location /files/ {{ alias {folder}/served/; }}
    }}
}}
"""

# nginx reads a body only to pass it on: /upload passes it to nginx itself.
NGINX_TLS = ("listen 127.0.0.1:{port} ssl backlog=4096; ssl_certificate {certificate}; ssl_certificate_key {key}; "
             "ssl_protocols TLSv1.2 TLSv1.3;")


def raise_files():
    """Raises the limit of open files as far as possible; returns the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = int(Path("/proc/sys/fs/nr_open").read_text(encoding="utf-8"))
    with contextlib.suppress(ValueError, OSError):  # only with CAP_SYS_RESOURCE
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        return most
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def versions():
    """{system: version} of the installed servers."""
    found = {}
    for program in (WEFT, GO):
        if os.access(program, os.X_OK):
            said = subprocess.run([program, "--versions"], capture_output=True, text=True, check=True).stdout
            found.update(line.split() for line in said.splitlines())
    nginx = nginx_path()
    if nginx:
        said = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=True).stderr
        found["nginx"] = re.search(r"nginx/(\S+)", said).group(1)
    return found


def nginx_path():
    return shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def status(pid, *names):
    """Fields of /proc/PID/status in kilobytes; 0 for a process that has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return [0 for _ in names]
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return [int(fields[name].split()[0]) if name in fields else 0 for name in names]


def in_child(cpus, nice=0, files=None, ahead=False):
    """Runs in the child before exec: sets CPUs, the limit of descriptors, a higher priority if allowed, and the signal
    at the death of the parent."""
    libc = ctypes.CDLL(None, use_errno=True)  # here, since a child after fork should load nothing

    def prepare():
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        os.sched_setaffinity(0, cpus)
        os.nice(nice)
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        if ahead:
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))

    return prepare


def make_certificate(folder):
    """Creates a key and a certificate in files of the folder; None without openssl."""
    if shutil.which("openssl") is None:
        return None
    key, certificate = Path(folder) / "key.pem", Path(folder) / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=127.0.0.1", "-days", "2", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return certificate, key


class Server:
    """A running server, for use with `with`. Options besides timeouts and limits: tls, a certificate and its key; files,
    the limit of descriptors; served, a folder for /files/."""

    def __init__(self, system, cpus, options=None):
        self.system, self.cpus = system, cpus
        self.options = {"header_timeout": 10, "idle_timeout": 60, "workers": 1000, "queue": 1000,
                        "connections": 100000, **(options or {})}
        self.port, self.tls_port, self.proxy_port, self.process, self.folder = None, None, None, None, None

    def __enter__(self):
        try:
            getattr(self, "start_" + self.system.replace("-", "_"))()
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, command, **how):
        self.process = subprocess.Popen([str(word) for word in command], text=True,
                                        preexec_fn=in_child(self.cpus, files=self.options.get("files")), **how)

    def start_and_read_port(self, command):
        self.start(command, stdout=subprocess.PIPE)
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        words = self.process.stdout.readline().split() if ready else []
        if words[:1] != ["port"]:
            raise RuntimeError(f"{self.system} did not start")
        ports = {name: int(port) for name, port in zip(words[::2], words[1::2])}
        self.port, self.tls_port, self.proxy_port = ports["port"], ports.get("tls-port"), ports.get("proxy-port")

    def start_weft(self):
        options = self.options
        command = [
            WEFT, "--workers", options["workers"], "--queue", options["queue"], "--connections", options["connections"],
            "--header-timeout", options["header_timeout"], "--idle-timeout", options["idle_timeout"]
        ]
        if options.get("tls"):
            command += ["--certificate", options["tls"][0], "--key", options["tls"][1]]
        if options.get("served"):
            command += ["--folder", options["served"]]
        self.start_and_read_port(command)

    def start_go(self):
        self.start_and_read_port([
            GO, "--system", self.system, "--header-timeout", f"{self.options['header_timeout']}s",
            "--idle-timeout", f"{self.options['idle_timeout']}s"
        ])

    start_net_http = start_fasthttp = start_go

    def start_nginx(self):
        self.folder, self.port, self.proxy_port = tempfile.mkdtemp(prefix="weft-nginx-"), free_port(), free_port()
        files = self.options.get("files")
        most = files or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        served = Path(self.folder) / "served"
        if self.options.get("served"):
            served.symlink_to(self.options["served"])
        else:
            served.mkdir()
            with open(served / "big", "wb") as big:
                big.truncate(BIG_SIZE)
        tls = ""
        if self.options.get("tls"):
            certificate, key = self.options["tls"]
            self.tls_port = free_port()
            tls = NGINX_TLS.format(port=self.tls_port, certificate=certificate, key=key)
        # nginx drops idle connections when 15/16 of worker_connections are in use: allow twice as
        # many as the limit of descriptors, unless the attack is about that.
        config = Path(self.folder) / "nginx.conf"
        config.write_text(NGINX.format(
            user="user root;" if os.geteuid() == 0 else "", folder=self.folder, port=self.port, proxy_port=self.proxy_port,
            files=most, tls=tls,
            connections=files or 2 * most, idle=self.options["idle_timeout"], header=self.options["header_timeout"]),
                          encoding="utf-8")
        self.start([nginx_path(), "-p", self.folder, "-c", config, "-e", f"{self.folder}/error.log"])

    def wait(self):
        """Waits until it accepts."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise RuntimeError(f"{self.system} does not listen")

    def warm_up(self, cpus):
        """Has it answer a few hundred clients at once, so that its own memory is not counted for connections."""
        subprocess.run([FLOOD, "burst", "--port", str(self.port), "--connections", "256", "--requests", "5000",
                        "--seconds", "20"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
                       preexec_fn=in_child(cpus), timeout=30)

    def pids(self):
        """The processes of the server: nginx has a worker besides the master."""
        first = self.process.pid
        children = Path(f"/proc/{first}/task/{first}/children").read_text(encoding="utf-8").split()
        return [first, *map(int, children)]

    def memory(self):
        """Resident memory and its peak, in kilobytes, of all its processes."""
        both = [status(pid, "VmRSS", "VmHWM") for pid in self.pids()]
        return sum(one[0] for one in both), sum(one[1] for one in both)

    def cpu_seconds(self):
        """CPU time of its processes, user and system."""
        ticks = 0
        for pid in self.pids():
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def alive(self):
        return self.process.poll() is None
