"""The web API matches its OpenAPI description (schemathesis)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from bygones.web.api import build_openapi
from bygones.web.app import ROUTES
from tests.web.client import WebClient

# By its name: following its types makes ignored imports of ours known to mypy.
schemathesis: Any = import_module("schemathesis")
checks: Any = import_module("schemathesis.specs.openapi.checks")
CHECKS = [
    import_module("schemathesis.checks").not_a_server_error,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
OPERATIONS = [
    (path, method)
    for path, methods in build_openapi(ROUTES)["paths"].items()
    for method in methods
]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_response_matches_its_schema(
    path: str, method: str, page: WebClient
) -> None:
    described = schemathesis.openapi.from_asgi(
        "/api/openapi.json", page.app, headers=page.default_headers
    )
    statuses = set()

    @settings(
        max_examples=12,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=described[path][method.upper()].as_strategy())
    def query(case: Any) -> None:  # noqa: ANN401 (see above)
        answer = case.call_and_validate(headers=page.default_headers, checks=CHECKS)
        statuses.add(answer.status_code)

    query()
    # Without a login, nothing of the API is visible.
    assert statuses - {401, 403, 421}
