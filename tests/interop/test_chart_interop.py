"""The Helm chart rendered: by Helm if it is installed, and by the engine Helm is made of."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from contrailmq import main as command
from contrailmq.broker.config.file import read_conf
from contrailmq.namesrv.settings import Configuration
from contrailmq.settings import parse_properties
from testkit.chart import CHART, values

pytestmark = pytest.mark.interop
RENDER = Path(__file__).parent / "helm" / "render.go"
REPLICATED = {"broker.groups": 2, "broker.replicas": 3}
SECURED = {"accounts.existingSecret": "accounts", "tls.existingSecret": "certificates"}
WATCHED = {"metrics.serviceMonitor": {"enabled": True, "interval": "10s", "labels": {"a": "b"}}}
PLACED = {
    "tolerations": [{"key": "mq", "operator": "Exists"}], "nodeSelector": {"disk": "nvme"},
    "podAnnotations": {"team": "orders"}, "broker.storage": {"size": "9Gi", "className": "fast"},
    "imagePullSecrets": [{"name": "registry"}],
}  # fmt: skip
CASES = {
    "plain": {},
    "replicated": REPLICATED,
    "all": {**REPLICATED, **SECURED, **WATCHED, **PLACED},
    "least": {"namesrv.replicas": 1, "broker.groups": 1, "podDisruptionBudget.enabled": False},
}
DOMAIN = "shop.svc.cluster.local"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go, for its text/template")
    binary = tmp_path_factory.mktemp("helm") / "render"
    subprocess.run([go, "build", "-o", str(binary), str(RENDER)], check=True, timeout=110)
    return binary


def _run(engine: Path, changes: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    base = "contrailmq/templates"
    order = {
        "templates": {
            f"{base}/{path.name}": path.read_text() for path in (CHART / "templates").iterdir()
        },
        "scope": {
            "Values": values(changes),
            "Chart": {"AppVersion": chart["appVersion"]},
            "Release": {"Name": "mq", "Namespace": "shop"},
            "Template": {"BasePath": base},
        },
    }
    return subprocess.run(
        [str(engine)], input=json.dumps(order), capture_output=True, text=True, timeout=30
    )


def _rendered(engine: Path, changes: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """What the chart makes, by kind and name."""
    done = _run(engine, changes)
    assert done.returncode == 0, done.stderr
    texts = [text for path, text in json.loads(done.stdout).items() if path.endswith(".yaml")]
    found = [each for text in texts for each in yaml.safe_load_all(text) if each]
    table = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(table) == len(found)
    return table


def _understood(words: list[str]) -> argparse.Namespace:
    make = command._find_parser(command.COMMANDS[words[0]].target)
    assert make is not None
    parser = make()
    assert isinstance(parser, argparse.ArgumentParser)
    return parser.parse_args(words[1:])


@pytest.mark.parametrize("case", CASES)
def test_what_is_rendered_holds_together(engine: Path, case: str) -> None:
    found = _rendered(engine, CASES[case])
    services = {name: each for (kind, name), each in found.items() if kind == "Service"}
    sets = {name: each for (kind, name), each in found.items() if kind == "StatefulSet"}
    for each in sets.values():
        pod = each["spec"]["template"]
        wanted = each["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= pod["metadata"]["labels"].items()
        service = services[each["spec"]["serviceName"]]
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        [container] = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        ports = {port["name"] for port in container["ports"]}
        for probe in ("livenessProbe", "readinessProbe"):
            [action] = [a for n, a in container[probe].items() if n in ("httpGet", "tcpSocket")]
            assert action["port"] in ports
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        claims = {claim["metadata"]["name"] for claim in each["spec"]["volumeClaimTemplates"]} if (
            "volumeClaimTemplates" in each["spec"]) else set()  # fmt: skip
        assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]} | claims
        _understood(container["args"])
    for (kind, _), each in found.items():
        if kind == "PodDisruptionBudget":
            wanted = each["spec"]["selector"]["matchLabels"]
            assert (
                sum(
                    wanted.items() <= one["spec"]["template"]["metadata"]["labels"].items()
                    for one in sets.values()
                )
                == 1
            )


@pytest.mark.parametrize("case", CASES)
def test_settings_are_those_of_the_servers(engine: Path, case: str) -> None:
    found = _rendered(engine, CASES[case])
    data = found["ConfigMap", "mq-contrailmq-settings"]["data"]
    conf = read_conf(parse_properties(data["broker.conf"]), strict=True)
    names = Configuration.of(parse_properties(data["namesrv.conf"]), strict=True)
    assert names.settings.bind_address == conf.broker.bind_address == "0.0.0.0"
    is_secured = case == "all"
    assert (conf.broker.acl_enable, names.settings.acl_enable) == (is_secured, is_secured)
    assert (conf.tls.server_mode == "enforcing") is is_secured
    members = conf.broker.namesrv_addr.split(";")
    known = found["StatefulSet", "mq-contrailmq-namesrv"]["spec"]["replicas"]
    assert members[0] == f"mq-contrailmq-namesrv-0.mq-contrailmq-namesrv-pods.{DOMAIN}:9876"
    assert len(members) == known


def test_replicas_come_with_a_controller(engine: Path) -> None:
    assert ("StatefulSet", "mq-contrailmq-controller") not in _rendered(engine, {})
    found = _rendered(engine, REPLICATED)
    for group in range(2):
        spec = found["StatefulSet", f"mq-contrailmq-broker-{group}"]["spec"]
        assert spec["replicas"] == 3
        [container] = spec["template"]["spec"]["containers"]
        options = _understood(container["args"])
        assert options.name == f"broker-{group}"
        advertised = dict(options.settings)["brokerIP1"]
        assert advertised == f"$(POD_NAME).mq-contrailmq-broker-pods.{DOMAIN}"
    [controller] = found["StatefulSet", "mq-contrailmq-controller"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert _understood(controller["args"]).ledger == "/var/lib/contrailmq/ledger.json"
    done = _run(engine, {**REPLICATED, "controller.replicas": 2})
    assert done.returncode == 1
    assert "needs controller.ledger: etcd://" in done.stderr


@pytest.mark.parametrize("case", CASES)
def test_helm_takes_the_chart(case: str, tmp_path: Path) -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("needs helm: go install helm.sh/helm/v3/cmd/helm@latest")
    given = tmp_path / "values.yaml"
    given.write_text(yaml.safe_dump(values(CASES[case])))
    for words in (["lint", "--strict"], ["template", "--namespace", "shop", "mq"]):
        done = subprocess.run(
            [helm, *words, str(CHART), "-f", str(given)], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
