"""Files for containers parse, and use options and paths that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bygones.cli.commands.hub import serve
from bygones.hub.middleware import HEALTH_PATH, READY_PATH

yaml = pytest.importorskip("yaml")
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm" / "bygones-hub"
OPTIONS = {word for parameter in serve.params for word in parameter.opts}
_TAG = re.compile(r"\{\{-? (.*?) ?-?\}\}")


def render(text: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Render the few forms of templates that the chart uses."""
    conditions: list[bool] = []
    lines = []
    for line in text.splitlines():
        control = re.fullmatch(r"\s*\{\{- (if not|if|end) ?(\S*) ?\}\}", line)
        if control and control[1] == "end":
            conditions.pop()
        elif control:
            is_set = bool(look_up(control[2], values))
            conditions.append(is_set is (control[1] == "if"))
        elif all(conditions):
            lines.append(_TAG.sub(lambda tag: evaluate(tag[1], values), line))
    assert not conditions
    return list(yaml.safe_load_all("\n".join(lines)))


def look_up(name: str, values: dict[str, Any]) -> Any:  # noqa: ANN401 (any value)
    if name == ".Release.Name":
        return "hub"
    found: Any = values
    for part in name.removeprefix(".Values.").split("."):
        found = found[part]
    return found


def evaluate(expression: str, values: dict[str, Any]) -> str:
    name, *filters = expression.split(" | ")
    value = look_up(name, values)
    for one in filters:
        if one.startswith("default "):
            value = value or one.removeprefix("default ").strip('"')
        else:
            assert one in {"quote", "toJson"}
            value = re.sub("'", '"', repr(value))
    return str(value)


@pytest.mark.parametrize("url", ["", "s3://bucket/hub"])
def test_chart_runs_a_hub_with_probes(url: str) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    values["raw"] |= {"url": url, "secret": "keys" if url else ""}
    template = (CHART / "templates" / "hub.yaml").read_text("utf-8")

    documents = {one["kind"]: one for one in render(template, values)}

    (hub,) = documents["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert {word for word in hub["args"] if word.startswith("--")} <= OPTIONS
    assert hub["livenessProbe"]["httpGet"]["path"] == HEALTH_PATH
    assert hub["readinessProbe"]["httpGet"]["path"] == READY_PATH
    variables = {one["name"] for one in hub["env"]}
    assert variables >= {"BYGONES_HUB_STORE", "BYGONES_HUB_RAW"}
    assert ("PersistentVolumeClaim" in documents) is (url == "")
    keys = [{"secretRef": {"name": "keys"}}] if url else None
    assert hub.get("envFrom") == keys
    assert documents["Ingress"]["spec"]["rules"][0]["host"] == values["hostname"]


def test_compose_file_and_container_start_the_same_command() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    hub = compose["services"]["hub"]
    container = (DEPLOY / "Containerfile").read_text("utf-8")

    assert (DEPLOY / hub["build"]["context"]).resolve() == DEPLOY.parent
    assert (DEPLOY.parent / hub["build"]["dockerfile"]).is_file()
    assert {word for word in hub["command"] if word.startswith("--")} <= OPTIONS
    assert READY_PATH in container
    for copied in re.findall(r"^COPY (?!--)(\S+)", container, re.MULTILINE):
        assert (DEPLOY.parent / copied).exists()
