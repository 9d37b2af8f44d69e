#!/usr/bin/env python3
"""deploy_files.py FOLDER: checks that the manifests of native-demo/deploy name each other's objects, labels and ports, and prints
its HTTPRoutes as JSON."""

import json
import pathlib
import sys

import yaml

FOLDER = pathlib.Path(sys.argv[1])
OBJECTS = [
    found for path in sorted(FOLDER.glob("*.yaml")) for found in yaml.safe_load_all(path.read_text())
]


def of_kind(kind):
    found = [entry for entry in OBJECTS if entry["kind"] == kind]
    assert found, f"no {kind}"
    return found


(deployment,) = of_kind("Deployment")
template = deployment["spec"]["template"]
labels = template["metadata"]["labels"]
(container,) = template["spec"]["containers"]
ports = {port["name"]: port["containerPort"] for port in container["ports"]}


def selects(selector):
    return selector.items() <= labels.items()


assert selects(deployment["spec"]["selector"]["matchLabels"])
for service in of_kind("Service"):
    assert selects(service["spec"]["selector"]), service
    assert all(port["targetPort"] in ports for port in service["spec"]["ports"]), service
for scaler in of_kind("HorizontalPodAutoscaler"):
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"], scaler
for pool in of_kind("InferencePool"):
    # Version 1's fields.
    assert pool["apiVersion"] == "inference.networking.k8s.io/v1", pool
    assert set(pool["spec"]) == {"selector", "targetPorts", "endpointPickerRef"}, pool
    assert selects(pool["spec"]["selector"]["matchLabels"]), pool
    assert [port["number"] for port in pool["spec"]["targetPorts"]] == list(ports.values()), pool
    picker = pool["spec"]["endpointPickerRef"]
    assert picker["name"] and 0 < picker["port"]["number"] < 65536, pool
routes = of_kind("HTTPRoute")
pools = [pool["metadata"]["name"] for pool in of_kind("InferencePool")]
for backend in [backend for route in routes for rule in route["spec"]["rules"] for backend in rule["backendRefs"]]:
    assert backend["kind"] == "InferencePool" and backend["name"] in pools, backend
mounts = {mount["name"] for mount in container["volumeMounts"]}
assert mounts == {volume["name"] for volume in template["spec"]["volumes"]}
grace = template["spec"]["terminationGracePeriodSeconds"]
(timeout,) = [int(flag.split("=")[1]) for flag in container["args"] if flag.startswith("--shutdown-timeout=")]
assert timeout < grace, "the server would be killed before its time has passed"
print(json.dumps(routes))
