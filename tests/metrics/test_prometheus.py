"""The dashboard, the alert rules and the names, as Prometheus sees them."""

import json
import pathlib
import re
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest

from lib.content import MIB, compare, read_all
from lib.waiting import until

GRAFANA = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "grafana"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as held:
        return held.getsockname()[1]


def ask(port, path, **parameters):
    address = f"http://127.0.0.1:{port}{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()


class Prometheus:
    def __init__(self, folder, targets):
        self.port = free_port()
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(GRAFANA / "alerts.yaml")],
            "scrape_configs": [{"job_name": "shardfs", "static_configs": [{"targets": targets}]}]}))
        self.log = open(folder / "prometheus.log", "wb")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def query(self, expression):
        answer = json.loads(ask(self.port, "/api/v1/query", query=expression))
        assert answer["status"] == "success", answer
        return answer["data"]["result"]

    def ready(self):
        try:
            return "Ready" in ask(self.port, "/-/ready")
        except OSError:
            return False

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.log.close()


def dashboard_queries():
    panels = json.loads((GRAFANA / "shardfs.json").read_text())["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]]


def test_names_and_rules(store, mount):
    port = free_port()
    store.put_generated("a", MIB, 1)
    mounted = mount(metrics_listen=port)
    compare(read_all(mounted.path / "a"), MIB, 1)
    lint = subprocess.run(["promtool", "check", "metrics"], input=ask(port, "/metrics"), text=True, capture_output=True,
                          check=False)
    assert not [line for line in (lint.stdout + lint.stderr).splitlines() if "shardfs_" in line], lint
    rules = subprocess.run(["promtool", "check", "rules", GRAFANA / "alerts.yaml"], text=True, capture_output=True, check=False)
    assert rules.returncode == 0 and "7 rules found" in rules.stdout, rules


@pytest.mark.limit_s(240)
def test_every_query_answers(store, mount, folder):
    """Of the dashboard, with data; and the rules: one alert for each thing that is wrong here, and no other."""
    port = free_port()
    for number in range(4):
        store.put_generated(f"a{number}", 4 * MIB, number)
    mounted = mount(metrics_listen=port, metrics_labels="slurm_job=7", stale_if_error=False)
    prometheus = Prometheus(folder, [f"127.0.0.1:{port}"])
    try:
        until(prometheus.ready, "Prometheus is ready", patience_s=60)
        until(lambda: prometheus.query("shardfs_info"), "it scrapes", patience_s=30)
        for number in range(4):
            compare(read_all(mounted.path / f"a{number}"), 4 * MIB, number)
        read = f'shardfs_fetched_bytes_total{{mountpoint="{mounted.path}"}}'
        until(lambda: sum(float(each["value"][1]) for each in prometheus.query(read)) == 16 * MIB, "all is seen", patience_s=30)
        until(lambda: prometheus.query(f"rate({read}[15s]) > 0"), "two samples", patience_s=30)
        empty = []
        for title, expression in dashboard_queries():
            for variable, text in (("$mountpoint", ".*"), ("$source", "s3://bucket"), ("$__rate_interval", "1m")):
                expression = expression.replace(variable, text)
            assert "$" not in expression
            if not prometheus.query(expression):
                empty.append(f"{title}: {expression}")
        assert not empty, "\n".join(empty)
        rules = json.loads(ask(prometheus.port, "/api/v1/rules"))["data"]["groups"][0]["rules"]
        assert len(rules) == 7
        until(lambda: all(rule["health"] == "ok" for rule in json.loads(ask(prometheus.port, "/api/v1/rules"))
                          ["data"]["groups"][0]["rules"]), "all rules were evaluated", patience_s=30)
        assert not prometheus.query("ALERTS")
    finally:
        prometheus.end()


def test_rules_use_exported_names(store, mount):
    port = free_port()
    mount(metrics_listen=port)
    exported = set(re.findall(r"^# TYPE (\w+)", ask(port, "/metrics"), re.MULTILINE))
    used = set(re.findall(r"shardfs_\w+", (GRAFANA / "alerts.yaml").read_text()))
    used |= {name for _, expression in dashboard_queries() for name in re.findall(r"shardfs_\w+", expression)}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in used} <= exported and len(used) >= 25
