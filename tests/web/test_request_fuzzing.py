"""Random requests that match the OpenAPI description never fail."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bygones.web.api import build_openapi
from bygones.web.app import ROUTES
from tests.web.archives import PLAIN
from tests.web.client import WebClient

DESCRIPTION = build_openapi(ROUTES)
OPERATIONS = [
    (path, method, operation)
    for path, methods in DESCRIPTION["paths"].items()
    for method, operation in methods.items()
]
ODD = st.sampled_from(
    ["", "0", "-1", "true", "null", "99999999999999999999", "is:error", 'a"b', "(", "%"]
)
VALUES = st.one_of(ODD, st.text(max_size=40), st.integers().map(str))
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=8,
)
CHANGES = st.one_of(
    ANYTHING,
    st.fixed_dictionaries(
        {}, optional={"tags": ANYTHING, "note": ANYTHING, "is_starred": ANYTHING}
    ),
)


@pytest.mark.parametrize("asked_of", OPERATIONS, ids=[one[0] for one in OPERATIONS])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=st.data())
def test_no_request_causes_a_server_error(
    asked_of: tuple[str, str, dict[str, Any]], page: WebClient, drawn: st.DataObject
) -> None:
    path, method, operation = asked_of
    parameters: dict[str, str] = {}
    for one in operation["parameters"]:
        if one["in"] == "path":
            name = drawn.draw(
                st.one_of(st.just(PLAIN), st.text(min_size=1, max_size=9))
            )
            path = path.replace(f"{{{one['name']}}}", quote(_text(name), safe=""))
        elif drawn.draw(st.booleans()):
            parameters[one["name"]] = _text(drawn.draw(VALUES))
    query = f"{path}?{urlencode(parameters)}"
    if method == "post":
        answer = page.post(f"{path.replace(PLAIN, 'nobody')}", drawn.draw(CHANGES))
    else:
        answer = page.get(query)

    known = {int(status) for status in operation["responses"]}
    assert answer.status in known | {404, 414}, (query, answer.text[:300])


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()
