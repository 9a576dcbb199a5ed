"""The dashboard while things change: reloads, compactions, sessions that end, and roles."""

import asyncio
from pathlib import Path

import pytest
from dashboard_server import LIMIT_S, Served, Visitor, complete, dashboard, visitor
from deltalake import DeltaTable
from synthetic_tables import Fleet, write_readings

from cloud_ingest.dashboard import models
from cloud_ingest.dashboard.browsers import PER_VISITOR_MAX
from gateway.web import web_sessions

READ = (
    *("fleet", "alerts", "gaps", "sensors", "moments", "tables", "events", "tree?time_ms=1"),
    *("gateway?name=gw-root", "history?gateway=gw-root&hours=1", "current?gateway=gw-root"),
    *("latency?hours=1", "slowest?hours=1"),
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    Fleet(12).write(folder, changes=3)
    return folder


async def test_who_reloads_a_page_more_often_than_browsers_may_listen_is_still_told(
    tables: Path,
) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        async with asyncio.timeout(LIMIT_S):
            for _ in range(2 * PER_VISITOR_MAX):
                while not await _listens_and_leaves(served, someone):
                    await asyncio.sleep(0.01)  # the connection before has not ended there yet


async def _listens_and_leaves(served: Served, someone: Visitor) -> bool:
    answer = await someone.session.get(f"{served.base}/api/events")
    is_told = answer.status == 200
    answer.close()
    return is_told


async def test_answers_stay_the_same_while_tables_are_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(models.AGAIN_S, "telemetry", 0.0)
    Fleet(5).write(tmp_path)
    for sensor in ("hall/a", "hall/b"):
        write_readings(tmp_path, "gw-root", [sensor], 2, 1800)
    async with dashboard(tmp_path) as served, visitor(served) as someone:
        await complete(served)
        _, sensors = await someone.get("sensors")
        span = {"start_ms": sensors["first_ms"][0], "end_ms": sensors["last_ms"][0] + 1}
        asked = {"gateway": "gw-root", "sensor": "hall/a", "points": 50} | span
        before = await someone.get("sensor", **asked)
        assert before[0] == 200
        changes = served.models.changes["telemetry"]
        table = DeltaTable(tmp_path / "telemetry")
        compacting = asyncio.ensure_future(asyncio.to_thread(table.optimize.compact))
        while not compacting.done():
            assert await someone.get("sensor", **asked) == before
        assert compacting.result()["numFilesRemoved"]
        async with asyncio.timeout(LIMIT_S):
            while served.models.changes["telemetry"] == changes or not served.models.is_complete:
                assert await someone.get("sensor", **asked) == before
        assert await someone.get("sensor", **asked) == before
        assert (await someone.get("sensors"))[1] == sensors


async def test_who_has_no_session_any_more_is_asked_to_log_in_and_told_no_more(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with dashboard(tables, has_users=True) as served, visitor(served) as rita:
        await complete(served)
        assert await rita.log_in("rita") == 200
        assert (await rita.get("fleet"))[0] == 200
        monkeypatch.setattr(web_sessions, "IDLE_S", -1.0)
        assert (await rita.get("fleet"))[0] == 401
        assert (await rita.get("me"))[1] | {"asks": True} == {
            "user": None,
            "is_in": False,
            "asks": True,
            "may_acknowledge": False,
        }
        assert (await rita.get("events"))[0] == 401
        monkeypatch.undo()
        assert await rita.log_in("rita") == 200
        assert (await rita.get("fleet"))[0] == 200


@pytest.mark.parametrize(
    ("user", "log_in", "reads", "acknowledges"),
    [(None, None, 401, 401), ("nina", 403, 401, 401), ("rita", 200, 200, 403)],
)
async def test_each_answer_is_for_those_whose_role_may_read(
    tables: Path, user: str | None, log_in: int | None, reads: int, acknowledges: int
) -> None:
    async with dashboard(tables, has_users=True) as served, visitor(served) as someone:
        await complete(served)
        if user is not None:
            assert await someone.log_in(user) == log_in
        for path in READ:
            async with someone.session.get(f"{served.base}/api/{path}") as answer:
                assert answer.status == reads, path
        alert = served.models.alerts["alert"][0]
        said = {"alert": alert, "note": ""}
        assert (await someone.post("acknowledge", said))[0] == acknowledges
