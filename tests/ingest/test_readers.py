"""Reading in other processes comes to what reading in this one does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from subprocess import Popen

import pytest

from recollect.ingest import readers
from recollect.ingest.gist import Gist, Stretch, gist_of
from recollect.ingest.reader import Reader
from recollect.ingest.readers import Readers
from recollect.model.ids import SourceId
from recollect.upkeep import rebuild
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.cases.make import CASES, copied, stories
from tests.store.keeping import Keeping, unlike_rebuilt


def stretch(words: str, start: int = 0) -> Stretch:
    raw = jsonl(thread(prompt(words), reply("so be it")))
    return Stretch(SourceId("/h/a.jsonl"), 0, start, raw)


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes are worth it however little there is to read."""
    monkeypatch.setattr(readers, "WORTH", 0)
    monkeypatch.setattr(readers, "spare_cores", lambda: 2)


@pytest.fixture
def one() -> Iterator[Reader]:
    found = Reader()
    yield found
    found.close()


def test_another_process_reads_what_this_one_does(one: Reader) -> None:
    for asked in (stretch("one"), stretch("two \u4e2d\u6587 \U0001f389", 99)):
        assert one.read(asked) == gist_of(asked)
    assert isinstance(one._child, Popen)
    assert not one._is_away


def test_a_reader_that_dies_costs_nothing(one: Reader) -> None:
    one.read(stretch("one"))
    assert one._child is not None
    one._child.kill()
    one._child.wait()

    assert one.read(stretch("two")) == gist_of(stretch("two"))
    assert one.read(stretch("three")) == gist_of(stretch("three"))


def test_a_reader_that_cannot_be_started_costs_nothing(
    one: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")

    assert one.read(stretch("one")) == gist_of(stretch("one"))


def test_a_reader_imports_nothing_from_the_folder_that_it_is_called_in(
    one: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "recollect"
    trap.mkdir()
    (trap / "__init__.py").write_text("import pathlib; pathlib.Path('sprung').touch()")
    (tmp_path / "msgspec.py").write_text(
        "import pathlib; pathlib.Path('sprung').touch()"
    )
    monkeypatch.chdir(tmp_path)

    one.read(stretch("one"))

    assert not (tmp_path / "sprung").exists()
    assert not one._is_away


def test_a_reader_ends_with_who_asked(one: Reader) -> None:
    one.read(stretch("one"))
    child = one._child
    assert child is not None
    one.close()

    assert child.returncode == 0


@pytest.mark.usefixtures("beside")
def test_what_is_asked_for_is_handed_on_in_order() -> None:
    done: list[int] = []

    def then(number: int, gist: Gist) -> None:
        assert gist == gist_of(stretch(f"words {number}"))
        done.append(number)

    with Readers() as some:
        some.expect(1)
        for number in range(40):
            some.add(stretch(f"words {number}"), partial(then, number))
            some.then(partial(done.append, -number))
        some.finish()

    assert done == [sign * number for number in range(40) for sign in (1, -1)]


@pytest.mark.usefixtures("beside")
def test_what_fails_while_it_is_handed_on_is_not_kept_quiet() -> None:
    def fail(_: Gist) -> None:
        raise OSError("no room")

    with Readers() as some:
        some.expect(1)
        some.add(stretch("one"), fail)
        with pytest.raises(OSError, match="no room"):
            some.finish()


@pytest.mark.usefixtures("beside")
def test_an_archive_read_by_many_equals_one_read_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = [copied(CASES / name, tmp_path / name) for name in sorted(stories())]
    many = Keeping(tmp_path / "many")
    many.ingest(*homes)
    with monkeypatch.context() as alone:
        alone.setattr(readers, "spare_cores", lambda: 0)
        one = Keeping(tmp_path / "one")
        one.ingest(*homes)

    assert many.dump() == one.dump()
    before = many.dump()
    rebuild(many.archive)
    assert many.dump() == before


@pytest.mark.usefixtures("beside")
def test_a_session_that_grows_is_read_by_many_as_by_one(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    path = keeping.home.session(session_id(1), thread(prompt("one"), reply("two")))
    keeping.ingest()
    with path.open("ab") as file:
        file.write(jsonl(thread(prompt("three"), reply("four"))))
    keeping.ingest()

    assert unlike_rebuilt(keeping) == []
