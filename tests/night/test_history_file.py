"""`history.duckdb`: any DuckDB gets the answers of `ask` from it, in any time zone, and nobody who holds it is in the way."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from jobs.ask.engine import Answers, texts_of, values_of
from jobs.store.maintain import maintain
from jobs.store.published import HISTORY, LAST_RUN
from schemas import asked, gold
from schemas.queries import Query, queries
from schemas.views import statements
from tests.cli.both import everything, lines
from tests.ingest.given import warehouse_at
from tests.night.nights import Capture, Nights, night, topics
from tests.night.stock import run_of, stock
from tests.night.test_queries import GIVEN, given
from tests.night.three_days import DAYS, beat, write_log

pytestmark = pytest.mark.slow

OTHER_DATE, OTHER_MINUTES = "Pacific/Pago_Pago", "Asia/Kathmandu"
"""Zones other than UTC: with another date at the same instant, and with hours that begin in the middle of UTC's."""
T1, T2, TOPIC = "2026-11-21 08:57:00", "2026-11-21 09:05:00", "TopicA"


def saved(query: Query) -> str:
    """Return the question for a saved query, as somebody asks it who knows its name and what it must be told."""
    told = ", ".join(f"'{GIVEN[one.name]}'" for one in query.parameters if one.default is None)
    return f"SELECT * FROM {query.name}({told})"


def test_the_saved_queries_are_answered_as_ask_answers_them(whole: Capture) -> None:
    """All of them, by stock DuckDB, of the file alone."""
    answers, numbers = Answers(str(whole.path)), {}
    with stock(whole.path, OTHER_DATE) as connection:
        for query in queries().values():
            wanted = answers.ask(
                asked.statement(f"query.{query.name}") or "", **values_of(query, texts_of(query, given(query)))
            )
            found = connection.execute(saved(query))
            names = [column[0] for column in found.description]
            assert names == wanted.names == list(query.columns)
            told = lines(names, found.fetchall())
            assert told == lines(*wanted), query.name
            numbers[query.name] = len(told)
    assert len(numbers) == 44
    assert sum(map(bool, numbers.values())) > 30


def test_all_views_and_functions_are_there(whole: Capture) -> None:
    """Each says what `ask` says. An instant without a zone is UTC: it is written in three ways, another one for each function."""
    answers = Answers(str(whole.path))
    with stock(whole.path, OTHER_MINUTES) as connection:
        for number, sql in enumerate(
            [*everything(T1, T2, TOPIC), *(f"SELECT * FROM {name}" for name in asked.stored())]
        ):
            untyped = sql.replace("TIMESTAMP", "")
            asks = (sql, untyped, untyped.replace(":00'", ":00+00'"))[number % 3]
            found = connection.execute(asks)
            assert lines([column[0] for column in found.description], found.fetchall()) == lines(*answers.ask(sql)), (
                asks
            )


def test_outside_of_what_is_recorded_functions_fail(whole: Capture) -> None:
    """As `ask` does, in the same words; so for no instant at all."""
    with stock(whole.path, OTHER_DATE) as connection:
        for t in ("TIMESTAMP '2020-01-01 12:00:00'", "'2020-01-01 12:00:00'", "TIMESTAMPTZ '2020-01-01 21:00:00+09'"):
            with pytest.raises(duckdb.Error, match="nothing is recorded at 2020-01-01 12:00:00 UTC; recorded: 127"):
                connection.execute(f"SELECT * FROM route_at('{TOPIC}', {t})").fetchall()
        with pytest.raises(duckdb.Error, match="nothing is recorded at NULL"):
            connection.execute(f"SELECT * FROM route_at('{TOPIC}', NULL)").fetchall()


def test_columns_and_functions_have_their_comments(whole: Capture) -> None:
    """Those of Spark's DESCRIBE: of each view, of each function, and of the columns of views."""
    with stock(whole.path) as connection:
        views = connection.execute(
            "SELECT view_name, comment FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal"
        )
        of_views = dict(views.fetchall())
        macros = connection.execute(
            "SELECT function_name, comment FROM duckdb_functions() WHERE function_type = 'table_macro'"
        )
        of_macros = dict(macros.fetchall())
        columns = connection.execute(
            "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'events'"
        ).fetchall()
    assert set(statements()) <= set(of_views) | set(of_macros)
    assert all(of_views[name] or of_macros.get(name) for name in of_views)
    assert all(of_macros[name] for name in statements() if name in of_macros)
    assert dict(columns)["day"] == "UTC date of effect_time"


def test_older_duckdb_opens_it(whole: Capture) -> None:
    """The form of the file is that of the first stable version, and nothing in it has what older ones cannot read."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{whole.path / HISTORY}' AS h (READ_ONLY)")
        ((tags,),) = connection.execute("SELECT tags FROM duckdb_databases() WHERE database_name = 'h'").fetchall()
        texts = connection.execute(
            """SELECT coalesce(macro_definition, '') FROM duckdb_functions() WHERE database_name = 'h'
            UNION ALL SELECT sql FROM duckdb_views() WHERE database_name = 'h'"""
        ).fetchall()
    assert tags["storage_version"] == "v1.0.0+"
    # DuckDB 1.5 reads offset and default of lag() and lead() twice where 2.0 has stored them.
    assert [text for (text,) in texts if re.search(r"\b(lag|lead)\([^()]*,", text, re.IGNORECASE)] == []
    assert len(texts) > 100


def test_it_is_opened_from_elsewhere_too(whole: Capture) -> None:
    """DuckDB is told where files are looked for."""
    with duckdb.connect(str(whole.path / HISTORY), read_only=True) as connection:
        with pytest.raises(duckdb.IOException):
            connection.execute("SELECT count(*) FROM events")
        connection.execute(f"SET file_search_path = '{whole.path}'")
        ((count,),) = connection.execute("SELECT count(*) FROM events").fetchall()
    assert count > 0


# -- who makes it, and when --------------------------------------------------------------------------------------------

_HOLDS = """
import sys, duckdb
held = duckdb.connect(sys.argv[1])
print(held.execute("SELECT run_id FROM files.run").fetchone()[0], flush=True)
sys.stdin.readline()
print(held.execute("SELECT run_id FROM files.run").fetchone()[0], flush=True)
"""


def test_nobody_who_holds_it_is_in_the_way(nights: Nights, copied: Path, tmp_path: Path) -> None:
    """A process that has it open for writing, as the command line of DuckDB does: `ask` answers, and a run puts a new one there."""
    path, first = copied, nights.summaries[-1]
    holds = [sys.executable, "-c", _HOLDS, str(path / HISTORY)]
    with subprocess.Popen(holds, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == first.run_id
        with pytest.raises(duckdb.IOException):
            duckdb.connect(str(path / HISTORY), read_only=True)
        assert Answers(str(path)).known.run_id == first.run_id
        second = night(path, write_log(tmp_path, DAYS[-1], [beat("13:00:00")]))
        assert run_of(path) == second.run_id
        holder.stdin.write("go on\n")
        holder.stdin.flush()
        assert holder.stdout.readline().strip() == first.run_id


def test_a_run_that_has_nothing_to_do_leaves_it(copied: Path, nights: Nights) -> None:
    """The same file; where there is none, one is made."""
    before = (copied / HISTORY).stat()
    assert night(copied, nights.logs[0]).status == "nothing_to_do"
    after = (copied / HISTORY).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    (copied / HISTORY).unlink()
    assert night(copied, nights.logs[0]).status == "nothing_to_do"
    assert run_of(copied) == nights.summaries[-1].run_id


def test_maintenance_deletes_nothing_that_it_names(copied: Path, nights: Nights) -> None:
    """However often, and however little is kept: all that can be asked of the file is answered."""
    with stock(copied) as connection:
        wanted = {name: connection.execute(f"SELECT * FROM {name} ORDER BY ALL").fetchall() for name in asked.stored()}
    for number in range(2):
        maintain(warehouse_at(copied, f"care-{number}"), retain_days=0)
        with stock(copied) as connection:
            for name, rows in wanted.items():
                assert connection.execute(f"SELECT * FROM {name} ORDER BY ALL").fetchall() == rows, name
        assert run_of(copied) == nights.summaries[-1].run_id


@pytest.mark.parametrize("what", ["there is none", "it is damaged", "the ledger went on", "it is of other software"])
def test_ask_makes_its_own_where_it_cannot_have_this_one(copied: Path, nights: Nights, what: str) -> None:
    """The answers are those of the last run, whatever became of the file."""
    wanted = topics(copied, f"{nights.summaries[-1].days[-1]} 12:00:00")
    path = copied / HISTORY
    if what == "there is none":
        path.unlink()
    elif what == "it is damaged":
        path.write_bytes(path.read_bytes()[:5_000])
    elif what == "the ledger went on":
        warehouse_at(copied, "later").note_run([], {"status": "refused", "gate": "no"})
    else:
        with duckdb.connect(str(path)) as connection:
            connection.execute("UPDATE files.run SET made_with = 'something else'")
    assert topics(copied, f"{nights.summaries[-1].days[-1]} 12:00:00") == wanted
    assert Answers(str(copied)).known.run_id == nights.summaries[-1].run_id


def test_what_cannot_be_made_is_made_by_the_next_command(
    copied: Path, nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be written unpublishes nothing; no earlier one stays that would be taken for the last."""
    for name in (HISTORY, LAST_RUN):
        (copied / name).unlink()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("jobs.store.warehouse.write_history", full)
        assert night(copied, nights.logs[0]).status == "nothing_to_do"
        assert not (copied / HISTORY).exists()
    assert night(copied, nights.logs[0]).status == "nothing_to_do"
    assert run_of(copied) == nights.summaries[-1].run_id


def test_rows_of_dead_runs_are_not_in_it(copied: Path) -> None:
    """What somebody has committed beyond the last run is not named; `ask` does not see it either."""
    warehouse = warehouse_at(copied, "somebody")
    warehouse.replace(gold.EVENT_OUTCOMES, None, [])
    warehouse.commit()
    (copied / HISTORY).unlink()
    warehouse_at(copied, "next").note_last()
    with stock(copied) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM event_outcomes").fetchall()
    assert list(Answers(str(copied)).ask("SELECT count(*) FROM event_outcomes").rows) == [(count,)]
    assert count > 0
