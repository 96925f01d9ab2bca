"""Without the right to create roles, the error says what is missing."""

from __future__ import annotations

import psycopg
import pytest

from bygones.errors import StoreError
from bygones.team.stores.postgres import PostgresStore
from tests.team.servers import missing_postgres, postgres


@pytest.mark.skipif(missing_postgres() is not None, reason=str(missing_postgres()))
def test_missing_right_to_create_roles_is_explained() -> None:
    with postgres() as server:
        with psycopg.connect(server.address, autocommit=True) as db:
            db.execute("CREATE ROLE plain LOGIN")
            db.execute("CREATE DATABASE plain OWNER plain")
        address = server.address.replace("team@", "plain@")
        store = PostgresStore(address.removesuffix("postgres") + "plain")

        with pytest.raises(StoreError, match="CREATE ROLE bygones_reader"):
            store.prepare()
        with psycopg.connect(server.address, autocommit=True) as db:
            db.execute("CREATE ROLE bygones_reader")
            db.execute("GRANT bygones_reader TO plain")
        store.prepare()

        assert store.verify().faults == ()
        store.close()
