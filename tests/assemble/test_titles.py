"""What a session is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect import read
from tests.build import SESSION, Home, prompt, reply, summary, thread


@pytest.mark.req("N1")
def test_an_error_that_became_a_summary_is_no_title(tmp_path: Path) -> None:
    home = Home(tmp_path)
    talk = thread(prompt("Mend the pump"), reply("Done."))
    leaf = str(talk[-1]["uuid"])
    home.session(SESSION, [summary("Invalid API key · Please run /login", leaf), *talk])

    (session,) = read(home.path)

    assert session.title.text == "Mend the pump"
