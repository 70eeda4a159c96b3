"""The report of a stretch of time: what it tells is what the tables say, in one file that nothing can break out of."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jobs.__main__ import main
from jobs.ask.engine import FUNCTIONS, Answers
from jobs.cli import pages
from jobs.cli.pages import write_pages
from jobs.errors import EXIT_MISSING_DAY, EXIT_OK, EXIT_USAGE, NotRecordedError
from jobs.night.gate import validate
from jobs.report.charts import NARROW, WIDE, Drawing, changes, silences, timeline, topic_timeline
from jobs.report.facts import MOST_PACKETS, Facts, Scope, facts_of
from jobs.report.page import MOST_ROWS, PAGES, report, text, weightiest
from namesrv_day.rules import measure
from schemas import bronze, gold
from tests.cli.rows import publish, warehouse_at
from tests.cli.test_query_situations import UP, A, B, answered, registered
from tests.day.good_rows import frames, good_rows
from tests.html_page import Page
from tests.night.nights import Capture
from tests.rows import NEXT_DAY, event, live

pytestmark = pytest.mark.slow

UTC = dt.timezone.utc
DAY = dt.datetime(2026, 11, 21, tzinfo=UTC)
ONE_DAY = dt.timedelta(days=1)
SCOPE = Scope(DAY, DAY + ONE_DAY)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chromium-headless-shell")


def told(warehouse: Path, **about: Any) -> Facts:
    """Return the facts of the capture's day."""
    return facts_of(Answers(str(warehouse)), SCOPE._replace(**about))


# -- what it tells -------------------------------------------------------------------------------------------------------


def test_what_it_tells_is_what_the_views_say(whole: Capture) -> None:
    """Stays as in broker_lives, changes as in route_changes, each with its cause and where it is recorded."""
    facts, answers = told(whole.path), Answers(str(whole.path))
    lives = list(answers.ask("SELECT broker_addr, from_time, to_time, left_by, closed_by FROM broker_lives").rows)
    names = ("broker_addr", "from_time", "to_time", "left_by", "closed_by")
    assert sorted(map(str, lives)) == sorted(str(tuple(row[name] for name in names)) for row in facts.stays)
    ((changes, events),) = answers.ask("SELECT count(*), count(DISTINCT caused_by) FROM route_changes").rows
    assert len(facts.changes) == events
    assert sum(row["appeared"] + row["changed"] + row["vanished"] + row["learned"] for row in facts.changes) == changes
    assert {row["operation"] for row in facts.changes} >= {"register_broker", "channel_close", "delete_topic"}
    assert all(row["source_file"] for row in facts.changes if row["operation"] != "scan")
    ((incidents,),) = answers.ask("SELECT count(*) FROM incidents").rows
    assert len(facts.incidents) == incidents > 3


def test_silences_are_those_of_the_view_and_removals(whole: Capture) -> None:
    """Every gap of more than half a lease, and every removal of a silent broker; what lies between two stays is none."""
    answers = Answers(str(whole.path))
    sql = "SELECT broker_addr, after_time, gap_ms FROM heartbeat_gaps WHERE gap_ms >= lease_ms / 2"
    expected = {
        *answers.ask(sql).rows,
        *answers.ask("SELECT broker_addr, last_beat_time, detection_lag_ms FROM expired_brokers").rows,
    }
    assert {(row["broker_addr"], row["after_time"], row["gap_ms"]) for row in told(whole.path).gaps} == expected
    assert expected


def test_brokers_at_one_address_are_silent_each_for_itself_and_answers_are_time_that_passes(tmp_path: Path) -> None:
    """One beats every half minute and hides 90 s of the other's silence; what was recorded last is an answer."""
    beats = [("a", minute, second) for minute in range(3) for second in ("00", "30")] + [("b", 0, "10"), ("b", 1, "40")]
    rows = {
        bronze.REGISTRATIONS: [
            registered(event(f"{name} {minute}:{second}", f"10:0{minute}:{second}"), broker_name=f"broker-{name}")
            for name, minute, second in beats
        ],
        gold.BROKER_LIVE_HISTORY: [live(A, UP, broker_name="broker-a")],
        bronze.ROUTE_OBSERVATIONS: [answered(event("asked", "10:30"))],
    }
    publish(warehouse_at(tmp_path, "1"), rows)
    start = dt.datetime(2026, 3, 1, tzinfo=UTC)
    facts = facts_of(Answers(str(tmp_path)), Scope(start, start + dt.timedelta(days=1)))
    assert [(row["broker_name"], row["broker_addr"], row["gap_ms"]) for row in facts.gaps] == [("broker-b", A, 90_000)]
    assert facts.end.replace(microsecond=0, second=0) == start.replace(hour=10, minute=30)


def test_a_day_is_told_as_it_was_known_when_it_ended(tmp_path: Path) -> None:
    """What closed later goes on, what came later is not there; afterwards the same connection sees all days again."""
    down = event("down", "08:00", NEXT_DAY)
    rows = {
        bronze.REGISTRATIONS: [registered(UP), registered(event("again", "07:00", NEXT_DAY))],
        gold.BROKER_LIVE_HISTORY: [
            live(A, UP, down, broker_name="broker-a"),
            live(B, event("other", "09:30"), broker_name="broker-b"),
        ],
    }
    publish(warehouse_at(tmp_path, "1"), rows)
    answers, start = Answers(str(tmp_path)), dt.datetime(2026, 3, 1, tzinfo=UTC)
    ends = [
        [(row["broker_name"], row["to_time"], row["closed_by"]) for row in facts.stays] + [facts.beats]
        for facts in (facts_of(answers, Scope(begin, begin + ONE_DAY)) for begin in (start, start + ONE_DAY))
    ]
    gone = (down[1], "down")
    assert ends == [
        [("broker-a", None, None), ("broker-b", None, None), 1],
        [("broker-a", *gone), ("broker-b", None, None), 1],
    ]
    assert [*answers.ask("SELECT count(*), (SELECT count(closed_by) FROM broker_lives) FROM registrations").rows] == [
        (2, 1)
    ]


def test_the_packets_behind_events_are_read_to_the_end(whole: Capture) -> None:
    """Each event of the tables that is recorded is told: request, header fields, topics, answer, and where it stands."""
    facts = told(whole.path)
    for row in facts.changes:
        said = dict(facts.packets.get(row["event_id"], ()))
        assert bool(said) == (row["operation"] != "scan")
        assert not said or said["recorded in"] == f"capture.pcap.gz, packet or line {row['source_offset']:,}"
    said = dict(facts.packets[next(row["event_id"] for row in facts.changes if row["operation"] == "register_broker")])
    assert said["request"] == "REGISTER_BROKER (103), version 4.9.7"
    assert (said["clusterName"], said["brokerName"], said["brokerId"]) == ("ClusterA", "broker-a", "0")
    assert re.fullmatch(r"TBW102 .*|[\w%-]+ \(read \d+, write \d+, perm \d\); .*", said["topics"])
    assert re.fullmatch(r"[\d,]+ bytes(, compressed)?", said["body"])
    assert said["answer"] == "code 0"
    said = dict(facts.packets[next(row["event_id"] for row in facts.changes if row["operation"] == "delete_topic")])
    assert (said["topic"], said["request"]) == ("TopicD", "DELETE_TOPIC_IN_NAMESRV (216), version 4.9.7")


@pytest.mark.parametrize(
    ("about", "is_about"),
    [
        (
            {"topic": "TopicD"},
            lambda facts: {t for row in facts.changes for t in row["topics"]} == {"TopicD"} and facts.queues,
        ),
        ({"broker": "broker-b"}, lambda facts: {row["broker_name"] for row in facts.stays} == {"broker-b"}),
        ({"namesrv": "127.0.0.1:9876"}, lambda facts: facts.stays and not facts.divergence),
    ],
)
def test_a_report_can_be_about_one_thing(
    whole: Capture, about: dict[str, str], is_about: Callable[[Facts], bool]
) -> None:
    """A topic, a broker, a name server: nothing else is told."""
    facts = told(whole.path, **about)
    assert is_about(facts)
    assert len(facts.incidents) <= len(told(whole.path).incidents)
    assert next(iter(about.values())) in report(facts)


def test_an_incident_has_its_own_report(whole: Capture, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some minutes around it, and no other incident."""
    sql = "SELECT incident_id, subject FROM incidents WHERE code = 'EXPIRED_BROKER' ORDER BY 1"
    incident, subject = next(Answers(str(whole.path)).ask(sql).rows)
    where = ["--output", str(tmp_path / "r.html"), "--warehouse", str(whole.path)]
    assert main(["report", "--incident", incident[:10], *where]) == EXIT_OK
    assert capsys.readouterr().out == f"{tmp_path / 'r.html'}\n"
    page = Page((tmp_path / "r.html").read_text())
    assert sum(of.get("class", "").startswith("incident") for tag, of in page.elements if tag == "article") == 1  # type: ignore[union-attr]
    assert subject in "".join(page.texts)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--from", "2026-12-01"], EXIT_MISSING_DAY, "published are 2026-11-21 to 2026-11-21"),
        (["--from", "2026-11-21", "--to", "2026-11-20"], EXIT_USAGE, "not before"),
        (["--topic", "nobody's"], EXIT_USAGE, "no name server had it"),
        (["--broker", "nobody"], EXIT_USAGE, "no name server had it"),
        (["--namesrv", "nobody:1"], EXIT_USAGE, "nothing is recorded of it"),
        (["--incident", "zz"], EXIT_USAGE, "0 incidents"),
        (["--from", "yesterday"], EXIT_USAGE, "ISO 8601"),
    ],
)
def test_what_cannot_be_reported_is_said(
    whole: Capture, tmp_path: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sentence and an exit code, and no file."""
    assert main(["report", *words, "--output", str(tmp_path / "r.html"), "--warehouse", str(whole.path)]) == code
    assert said in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


# -- the file ------------------------------------------------------------------------------------------------------------


def test_it_is_one_file_that_asks_for_nothing(whole: Capture) -> None:
    """No element loads anything, a policy forbids it, ids are unique, charts say what they show, and it is small."""
    html = report(told(whole.path))
    page = Page(html)
    assert not [
        tag
        for tag, of in page.elements
        if {"src", "href", "xlink:href"} & set(of) and not str(of.get("href", "#")).startswith("#")
    ]
    assert page.tags.isdisjoint({"img", "iframe", "link", "object", "embed", "image", "foreignobject"})
    policy = next(of["content"] for tag, of in page.elements if of.get("http-equiv") == "Content-Security-Policy")
    assert (policy or "").startswith("default-src 'none'")
    ids = [of["id"] for _, of in page.elements if "id" in of]
    assert len(ids) == len(set(ids))
    assert not re.search(r"url\((?!#)", html)
    marks = [of for tag, of in page.elements if tag == "path" and of.get("aria-label")]
    assert any("connection lost" in str(of["aria-label"]) for of in marks)
    assert len(html) < 2_000_000


def test_parts_of_a_page_keep_to_their_length() -> None:
    """A long table says what is left out; a text is escaped, isolated and cut."""
    table = PAGES.get_template("parts.html").module.table  # type: ignore[attr-defined]  # a macro
    rows = [[text(n)] for n in range(MOST_ROWS + 7)]
    assert "7 more rows are not shown" in table("t", "many", ["n"], rows)
    assert "12 more rows are not shown" in table("t", "many", ["n"], rows[:5], 17)
    assert weightiest([3, 1, 2], lambda one: one) == [3, 1, 2]
    assert weightiest(list(range(MOST_ROWS + 2)), lambda one: -one) == list(range(MOST_ROWS))
    assert table("t", "none", ["n"], []).strip() == ""
    assert text("<a>") == "<bdi>&lt;a&gt;</bdi>"
    assert len(text("y" * 5_000)) < 400


def drawn(chart: Drawing) -> str:
    return str(PAGES.get_template("parts.html").module.svg(chart))  # type: ignore[attr-defined]  # a macro


def test_charts_place_marks_where_things_happened() -> None:
    """A bar spans its stay in proportion to the time; a silence beyond the lease lies above the limit."""
    domain = DAY, DAY + dt.timedelta(hours=10)
    stay = {"namesrv_id": "n", "broker_name": "b", "broker_addr": "a:1", "from_time": DAY + dt.timedelta(hours=2)}
    stay |= {"to_time": DAY + dt.timedelta(hours=7), "left_by": "scan"}
    svg = drawn(timeline([], [stay], domain, WIDE))
    path = re.search(r'aria-label="b  a:1: live[^"]*" d="([^"]*)"', svg)
    assert path is not None
    xs = [float(x) for x in re.findall(r"[MH]([\d.]+)", path[1])]
    assert min(xs) == pytest.approx(WIDE * 0.2, abs=3)
    assert max(xs) == pytest.approx(WIDE * 0.7, abs=3)
    addr = "192.168.100.217:10911"
    assert svg.count(addr) == 0
    assert drawn(timeline([], [stay | {"broker_addr": addr}], domain, WIDE)).count(addr) > 2
    assert {"02:00", "08:00"} <= set(re.findall(r">(\d\d:\d\d)<", svg))
    assert "lease ended at 2026-11-21 07:00:00" in svg
    gap = {"namesrv_id": "n", "ns": "NS1", "broker_name": "b", "gap_ms": 150_000, "lease_ms": 120_000}
    gap |= {"until_time": DAY + dt.timedelta(hours=1)}
    assert "150.0 s of 120 s silent" in drawn(silences([gap | {"ended_by": "scan"}], domain, WIDE))


def test_charts_have_one_time_axis_and_tell_name_servers_apart_on_a_phone() -> None:
    """An instant stands at the same place in every chart of a page; a broker on two name servers has two labels."""
    domain = DAY, DAY + dt.timedelta(hours=10)
    ends: dict[str, Any] = {
        "from_time": DAY,
        "to_time": None,
        "until_time": DAY + dt.timedelta(hours=1),
        "ended_by": "scan",
    }
    counts: dict[str, Any] = {"effect_time": DAY, "appeared": 1, "changed": 2, "vanished": 0, "learned": 0}
    numbers: dict[str, Any] = {"perm": 6, "read_queues": 1, "write_queues": 1, "gap_ms": 150_000, "lease_ms": 120_000}
    rows: list[dict[str, Any]] = [
        {"ns": f"NS{n}", "namesrv_id": f"192.168.100.{n}:9876", "broker_name": "a-broker-of-a-long-name"}
        | numbers
        | ends
        for n in (1, 2)
    ]
    for width in (WIDE, NARROW):
        charts = (topic_timeline(rows, domain, width), silences(rows, domain, width))
        svgs = [drawn(chart) for chart in (*charts, changes([row | counts for row in rows], domain, width))]
        assert len({re.findall(r"translate\(([\d.]+),", svg)[0] for svg in svgs}) == 1
        assert len(set(re.findall(r">(NS\d [^<]+)</text>", svgs[0]))) == 2


def test_colours_are_told_from_what_is_behind_them() -> None:
    """Every colour, of words and of charts, on paper and on cards, light and dark: a contrast of 4.5 to 1 or more (WCAG 2)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    css = (Path(pages.__file__).parents[1] / "report" / "report.css").read_text()
    themes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in re.findall(r"color-scheme: \w+;([^}]*)", css)
    ]
    themes = [theme for theme in themes if "card" in theme]
    assert len(themes) == 3, "light, dark by the system, dark by choice"
    for theme in themes:
        for name in set(theme) - {"paper", "card", "line"}:
            for behind in ("paper", "card"):
                dark, light = sorted(luminance(theme[of]) for of in (name, behind))
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, behind, theme[name])


def test_a_day_of_many_changes_is_a_small_page(whole: Capture) -> None:
    """10,000 route changes, and as many rows that came and went: below 5 MB; of still more rows it says how to narrow it."""
    facts = told(whole.path)
    row = facts.registry[0]
    facts.changes = [{**row, "event_id": f"{n:032x}"} for n, row in enumerate(facts.changes * 200)][:10_000]
    rows = [
        {**row, "row_key": f"Topic-{n:08} broker-{n:04}", "begun": row["begun"] + n, "opened_by": f"{n:032x}"}
        for n in range(10_000)
    ]
    facts.registry = rows
    said = {row["event_id"]: facts.packets[row["event_id"]] for row in told(whole.path).changes if row["source_file"]}
    facts.packets = {
        f"{n:032x}": [(name, f"{value} {n}" if n % 4 == 0 else value) for name, value in list(said.values())[n % 3]]
        for n in range(MOST_PACKETS)
    }
    assert len(report(facts)) < 5_000_000
    facts.registry = rows * 3
    assert "Too many rows for one page" in report(facts)


def test_a_night_leaves_pages_to_which_one_leads(whole: Capture, tmp_path: Path) -> None:
    """The index links reports by day, newest first, and Data Docs; every link leads to a file, none elsewhere."""
    shutil.copytree(whole.path, tmp_path / "w")
    docs = tmp_path / "w" / "data_docs" / "index.html"
    docs.parent.mkdir(exist_ok=True)
    docs.write_text("<h1>rules</h1>")
    assert write_pages(str(tmp_path / "w"), [DAY.date()], docs) == tmp_path / "w" / "index.html"
    assert write_pages(str(tmp_path / "w"), [], docs) is not None
    stands = " ".join("".join(Page((tmp_path / "w" / "index.html").read_text()).texts).split())
    answers = Answers(str(whole.path))
    ((ongoing,),) = answers.ask("SELECT count(*) FROM incidents WHERE state = 'ongoing'").rows
    assert re.search(rf"\b{ongoing} ?incidents ongoing", stands)
    ((recorded, matched),) = answers.ask("SELECT sum(answers), sum(matched) FROM answer_checks").rows
    assert re.search(
        rf"\b{matched * 10000 // recorded / 100:.2f}% ?of {int(recorded):,} recorded answers match", stands
    )
    assert "127.0.0.1:9876: 2026-11-21 08:5" in stands
    assert f"{answers.known.run_id}, published" in stands
    page = Page((tmp_path / "w" / "index.html").read_text())
    links = [link for link in page.links if not link.startswith("#")]
    assert links
    assert all((tmp_path / "w" / link).is_file() for link in links)
    assert "TopicD" in (tmp_path / "w" / "reports" / "2026-11-21.html").read_text()


def test_pages_that_cannot_be_written_are_told_and_no_failure_of_the_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is published there: a sentence on standard error, and no page."""
    assert write_pages(str(tmp_path), [], tmp_path / "none") is None
    assert "no pages" in capsys.readouterr().err
    assert write_pages("s3://bucket/w", [], tmp_path / "none") is None


# -- in a browser --------------------------------------------------------------------------------------------------------

_PROBE = """
<script id="probe">addEventListener("load", () => { const found = {};
  const seen = (s) => [...document.querySelectorAll(s)].filter((one) => one.getClientRects().length);
  found.charts = seen(".chart").length; found.wider = document.documentElement.scrollWidth - innerWidth;
  found.ink = getComputedStyle(document.body).color; found.paper = getComputedStyle(document.body).backgroundColor;
  const chart = seen(".chart")[0]; chart.focus();
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  found.said = chart.parentElement.querySelector("output").textContent; found.focused = document.activeElement === chart;
  const bar = chart.querySelector(".chosen"); found.bar = bar ? getComputedStyle(bar).fill : null;
  const box = document.querySelector("input[data-filters=changed]");
  if (box) { box.value = "delete_topic"; box.dispatchEvent(new Event("input"));
    const rows = [...document.querySelectorAll("#changed tbody tr")]; found.rows = rows.length;
    found.left = rows.filter((row) => !row.hidden).length; }
  found.squeezed = seen("td bdi").filter((one) => one.textContent.length > 3 && one.getBoundingClientRect().width < 20).length;
  found.broken = seen("td.address bdi").filter((one) => one.textContent.length < 22 && one.getClientRects().length > 1).length;
  document.querySelector("#theme").click(); found.turned = getComputedStyle(document.body).backgroundColor;
  const dialog = document.querySelector("#packet");
  for (const one of document.querySelectorAll("#changed [data-event]")) { one.click(); dialog.close(); }
  const event = document.querySelector("#changed [data-event]"); event.click(); found.event = event.dataset.event;
  found.packet = [...dialog.querySelectorAll("dt, dd")].map((part) => part.textContent);
  found.beyond = dialog.getBoundingClientRect().right - innerWidth;
  dialog.querySelector("button").click(); found.open = dialog.open;
  found.alerts = window.alerts || 0; document.documentElement.setAttribute("data-found", JSON.stringify(found)); });
  window.alert = () => { window.alerts = (window.alerts || 0) + 1; };</script>"""


def browsed(html: str, folder: Path, *options: str, probe: str = _PROBE) -> Any:
    """Return what a page says of itself in a browser, in which everything runs that would: the policy is left out."""
    html = re.sub(r"<meta http-equiv[^>]*>", "", html, count=1).replace("<body>", f"<body>{probe}", 1)
    (folder / "page.html").write_text(html)
    words = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"]
    words += [
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=5000",
        *options,
        "--dump-dom",
        (folder / "page.html").as_uri(),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    return json.loads(unescape(found[1]))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize(("size", "paper"), [("1200,900", "light"), ("390,844", "light"), ("1200,900", "dark")])
def test_a_browser_shows_it_wide_narrow_and_dark(whole: Capture, tmp_path: Path, size: str, paper: str) -> None:
    """Nothing is wider than the window, one chart of each pair is seen, keys walk through it, the filter filters, themes turn."""
    options = [f"--window-size={size}", *(["--blink-settings=preferredColorScheme=0"] if paper == "dark" else [])]
    facts = told(whole.path)
    found = browsed(report(facts), tmp_path, *options)
    assert found["wider"] <= 0
    assert found["packet"] == [part for pair in facts.packets[found["event"]] for part in pair] != []
    assert (found["beyond"] <= 0, found["open"]) == (True, False)
    assert (found["squeezed"], found["broken"]) == (0, 0), "words stand in lines, addresses on one"
    assert found["charts"] == 3
    assert found["focused"]
    assert "until" in found["said"] or "and on" in found["said"] or "at" in found["said"]
    assert found["bar"] not in (None, "none", "rgb(0, 0, 0)")
    assert 0 < found["left"] < found["rows"]
    assert found["paper"] == ("rgb(15, 20, 25)" if paper == "dark" else "rgb(255, 255, 255)")
    assert found["turned"] != found["paper"]


_DOCS = """<script>addEventListener("load", () => { const row = document.querySelector("tr + tr"), cell = row.querySelector("td");
  const style = getComputedStyle(cell), wide = document.documentElement.scrollWidth - innerWidth;
  const found = [innerWidth, wide, parseFloat(style.fontSize), getComputedStyle(cell, "::before").content, row.offsetHeight];
  document.documentElement.setAttribute("data-found", JSON.stringify(found)); });</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_data_docs_are_read_on_a_phone(tmp_path: Path) -> None:
    """Nothing is wider than the window, letters have their size, a row is a card whose cells say what they are."""
    index = validate(measure(frames(good_rows())), tmp_path / "docs").docs_path
    html = index.read_text(encoding="utf-8")
    width, wider, size, before, high = browsed(html, tmp_path, "--window-size=390,844", probe=_DOCS)
    assert (wider <= 0, size) == (True, 15)
    # A Chromium with a window is never as narrow.
    assert width >= 500 or (before == '"Status: "' and high > 60)


KEYS = {
    "topicQueueTable": "topic, broker_name",
    "brokerAddrTable": "broker_name, broker_id",
    "clusterAddrTable": "cluster_name, broker_name",
    "brokerLiveTable": "cluster_name, broker_addr",
    "filterServerTable": "cluster_name, broker_addr",
    "kvConfigTable": "namespace, config_key",
}
_READ = """<script>addEventListener("load", () => { const found = %s.map((at) => statesAt(at).rows.map((row) =>
  states.rows[row].slice(0, 5).map((place) => states.texts[place])));
  const bar = document.querySelector("#now"), begins = document.querySelector("#states-said").textContent;
  const rows = () => document.querySelectorAll("#states-rows tbody tr").length;
  bar.value = %s; bar.dispatchEvent(new Event("input")); const shown = rows();
  document.querySelector("#states-rows [data-event]").click(); const opened = document.querySelector("#packet dd").textContent;
  document.querySelector("#compare").click(); const differing = rows();
  document.documentElement.setAttribute("data-found", JSON.stringify([found, begins, shown, differing, opened])); });</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_tables_on_the_page_are_those_of_any_instant(whole: Capture, tmp_path: Path) -> None:
    """At 100 random instants, edges of intervals among them, a table read off the page is what `table-at` says of it."""
    answers, random = Answers(str(whole.path)), Random(7)
    facts = told(whole.path)
    begun, ended = (int(at.timestamp() * 1_000_000) for at in (facts.start, facts.end))
    edges = [row["begun"] for row in facts.registry if begun <= row["begun"] < ended]
    instants = [random.choice(edges) if n % 4 == 0 else random.randrange(begun, ended) for n in range(100)]
    middle = edges[len(edges) // 2]
    found, begins, shown, differing, opened = browsed(
        report(facts), tmp_path, probe=_READ % (json.dumps(instants), middle)
    )
    seen = 0
    for micros, rows in zip(instants, found, strict=True):
        table = random.choice([*KEYS, "topicQueueTable", "brokerLiveTable"])
        t = dt.datetime.fromtimestamp(0, UTC) + dt.timedelta(microseconds=micros)
        sql = f"SELECT namesrv_id, concat_ws(' ', {KEYS[table]}), opened_by FROM {FUNCTIONS[table]}($t) WHERE opened_by IS NOT NULL"
        try:
            expected = sorted(answers.ask(sql, t=t).rows)
        except NotRecordedError:
            expected = []
        assert sorted((row[0], row[2], row[4]) for row in rows if row[1] == table) == expected, t
        seen += len(expected)
    assert seen > 500
    assert re.match(r"\d+ rows\. 127\.0\.0\.1:9876: known in full", begins), "it begins where something is recorded"
    assert shown > 20
    assert differing > 0
    assert opened.startswith("REGISTER_BROKER (103), version 4.9.7")
