"""Manifest and Helm chart: Kubernetes' own schemas take them, roco takes what they tell it, and both say the same.

helm is that of the path or of the cache folder, where tests/deploy/fetch-helm puts it.
"""
import os
import pathlib
import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml

PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging"
CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
HELM = shutil.which("helm", path=f"{os.environ['PATH']}:{CACHE}/roco/bin")
VERSIONS = ["1.30", kubernetes_validate.latest_version()]  # the first with what preStop needs, and the newest known
EVERYTHING = {"autoscaling.enabled": "true", "apiKeys.existingSecret": "roco-keys", "tls.existingSecret": "roco-tls", "replicas": "3",
              "podMonitor.enabled": "true", "service.type": "LoadBalancer", "options.kv-policy": "h2o", "options.request-timeout": "600"}

needs_helm = pytest.mark.skipif(not HELM, reason="helm is not installed: tests/deploy/fetch-helm")


def helm(*words, settings=None):
    values = [word for name, value in (settings or {}).items() for word in ("--set", f"{name}={value}")]
    return subprocess.run([HELM, *map(str, words), PACKAGING / "helm/roco", *values], capture_output=True, text=True, timeout=60)


def render(settings=None):
    made = helm("template", "roco", settings=settings)
    assert made.returncode == 0, made.stderr
    return sorted((d for d in yaml.safe_load_all(made.stdout) if d), key=lambda d: d["kind"])


def manifest():
    return sorted(yaml.safe_load_all((PACKAGING / "kubernetes.yaml").read_text()), key=lambda d: d["kind"])


def container(documents):
    deployment, = (d for d in documents if d["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    return pod, pod["containers"][0]


def check(documents, build):
    for document in documents:
        if document["apiVersion"].startswith("monitoring.coreos.com"):
            continue  # not one of Kubernetes' own
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)
    pod, roco = container(documents)
    environment = {e["name"]: e["value"] for e in roco["env"]}
    assert pod["terminationGracePeriodSeconds"] > int(environment["ROCO_DRAIN_TIMEOUT"]) + roco["lifecycle"]["preStop"]["sleep"]["seconds"]
    # Asking a port where nobody listens: 1. An option it does not know, or a value it does not take: 2.
    asked = subprocess.run([build / "roco", "ready"], env={**environment, "ROCO_PORT": "1"}, capture_output=True, text=True, timeout=60)
    assert asked.returncode == 1, asked.stderr
    mounts = {m["name"] for m in roco["volumeMounts"] or ()}
    assert mounts == {v["name"] for v in pod["volumes"] or ()}
    paths = [v for v in environment.values() if v.startswith("/")]
    assert all(any(p.startswith(m["mountPath"] + "/") for m in roco["volumeMounts"] or ()) or p.startswith("/models/") for p in paths)


def test_the_manifest(build):
    check(manifest(), build)


@needs_helm
@pytest.mark.parametrize("settings", [{}, EVERYTHING, {"model.existingClaim": "", "podDisruptionBudget.enabled": "false"}])
def test_the_chart(build, settings):
    documents = render(settings)
    check(documents, build)
    kinds = {d["kind"] for d in documents}
    assert ("HorizontalPodAutoscaler" in kinds) == (settings.get("autoscaling.enabled") == "true")
    assert ("PodDisruptionBudget" in kinds) == ("podDisruptionBudget.enabled" not in settings)
    probe = container(documents)[1]["readinessProbe"]["httpGet"]
    assert probe["scheme"] == ("HTTPS" if "tls.existingSecret" in settings else "HTTP")


@needs_helm
def test_the_chart_is_clean():
    lint = helm("lint", "--strict")
    assert lint.returncode == 0 and "[WARNING]" not in lint.stdout, lint.stdout + lint.stderr


@needs_helm
@pytest.mark.parametrize("name, value", [("replica", "3"), ("replicas", "0"), ("options.port", "80"), ("metricsAliases", "tgi"),
                                         ("options.KV", "1"), ("autoscaling.enabled", "maybe")])
def test_the_chart_refuses(name, value):
    assert helm("template", "roco", settings={name: value}).returncode != 0


@needs_helm
def test_the_manifest_is_what_the_chart_makes():
    def plain(document):
        labels = document["metadata"].pop("labels", {})
        assert labels.get("app.kubernetes.io/name", "roco") == "roco"
        return document

    assert [plain(d) for d in manifest()] == [plain(d) for d in render({"autoscaling.enabled": "true"})]
