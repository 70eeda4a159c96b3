"""Conversations as text: what packets tell of the ends of connections, of lives of name servers, and of what is not recorded."""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path

import pytest

from namesrv_wire.packets.segments import ACK, RST, SYN, Segment
from namesrv_wire.protocol.frames import ONE_WAY
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.transcript import Transcript
from tests.wire.counted import accounted
from tests.wire.forge import (
    BROKER,
    EPOCH_NS,
    MS_NS,
    NAMESRV,
    SECOND_NS,
    Talk,
    facts,
    final,
    in_parts,
    merged,
    of_table,
    register_json,
    request,
    response,
    rows_of,
)

TEXT = Path(__file__).with_name("conversations.txt").read_text(encoding="utf-8")
BLOCKS = re.split(r"\n\n+", re.sub(r"(?m)^#.*\n", "", TEXT).strip())
FACTS = ("started", "stopped", "recording_gap", "clock_went_back", "idle_limit_outlasted")
SAID = {
    "beat": request(904, BROKER, flag=ONE_WAY),
    "query": request(322, BROKER, b'{"counter":1,"timestamp":1}', opaque=4),
    "question": request(105, {"topic": "T"}, opaque=3),
    "leave": request(104, BROKER, opaque=9),
    "damaged": request(103, BROKER, b"{", opaque=3),
    "damaged-one-way": request(103, BROKER, b"{", opaque=3, flag=ONE_WAY),
    "http": b"GET / HTTP/1.1",
    "zeros": bytes(64),
}


def host_of(name: str) -> str:
    return f"10.0.0.{ord(name) - ord('a') + 2}"


def registration_of(name: str) -> bytes:
    """Return the registration of the broker on a client's host."""
    return request(103, BROKER | {"brokerAddr": f"{host_of(name)}:10911"}, register_json({"T": 4}), opaque=3)


class Line(Talk):
    """A connection that is told in words, of whose segments some were not recorded."""

    def __init__(self, name: str, number: int) -> None:
        again = int(name[1:] or 0) * 5_000_000
        client, self.register = f"{host_of(name[0])}:40000", registration_of(name[0])
        super().__init__(EPOCH_NS + number * MS_NS // 4, client, client_seq=1_000 + again, server_seq=9_000 + again)
        self.opaque = 20

    def tell(self, words: str) -> None:
        """Add what the words say."""
        for times, repeated, lost, word in re.findall(r"(\d+)\*\[(.*?)\]|\{(.*?)\}|(\S+)", words):
            for _ in range(int(times or 0)):
                self.tell(repeated)
            if lost:
                known = len(self.segments)
                self.tell(lost)
                del self.segments[known:]
            if word:
                self.say(word)

    def say(self, word: str) -> None:
        """Add one thing."""
        if pause := re.fullmatch(r"(-?\d+)(m?s)", word):
            self.wait(int(pause[1]) * (MS_NS if pause[2] == "ms" else SECOND_NS))
        elif word.startswith("@"):
            self.at_ns = EPOCH_NS + round(float(word[1:]) * 1_000) * MS_NS
        elif word in SAID:
            self.ask(SAID[word])
        elif word.startswith("of-"):
            self.register = registration_of(word[3:])
        elif word in ("register", "begun", "rest"):
            self.ask({"begun": self.register[:300], "rest": self.register[300:]}.get(word, self.register))
        elif word == "registered":
            self.ask(self.register).answer(response(3))
        elif word == "route":
            self.opaque += 1
            self.exchange(105, {"topic": "T"}, opaque=self.opaque)
        elif word in ("answer", "refusal"):
            self.answer(response(3, code=int(word == "refusal")))
        elif word == "cut":  # of what was sent last, only the beginning was kept
            last = self.segments[-1]
            self.segments[-1] = last._replace(payload=last.payload[:120], lost=len(last.payload) - 120)
        elif word in ("syn", "syn-ack", "ack"):
            self.add(word != "syn", {"syn": SYN, "syn-ack": SYN | ACK, "ack": ACK}[word])
        elif word.startswith("kernel-rst"):  # no acknowledgement, and the number that was asked for
            self.add(True, RST, seq=self.server_seq + word.endswith("-off"))
        elif word == "server-fin-before":  # it acknowledges no more than the packet before
            before = next(segment.ack for segment in reversed(self.segments) if segment.src == self.server)
            self.server_fin()
            self.segments[-1] = self.segments[-1]._replace(ack=before)
        else:
            getattr(self, word.replace("-", "_"))()


def read(segments: list[Segment], transcript: Transcript, asked: list[list[str]]) -> list[AnyRow]:
    """Return the rows of a capture, of which a part that is asked for cannot be read, or that ends before its last packet."""
    ends = {
        word: [EPOCH_NS + round(float(at) * SECOND_NS) for at in seconds] for word, *seconds in asked if word != "cut"
    }
    segments = [segment for segment in segments if segment.time_ns < ends.get("until", [1 << 62])[0]]
    if "hole" not in ends:
        return rows_of(segments, transcript)
    begin_ns, end_ns = ends["hole"]
    rows = rows_of([segment for segment in segments if segment.time_ns < begin_ns], transcript, finish=False)
    transcript.pass_hole("forged.pcap")
    return rows + rows_of([segment for segment in segments if segment.time_ns >= end_ns], transcript, finish=False)


def second(us: int) -> str:
    return f"{us / 1e6 - EPOCH_NS / 1e9:.3f}".rstrip("0").rstrip(".")


def found(rows: list[AnyRow]) -> list[str]:
    """Return ends of connections and facts of the name server, in order, as lines."""
    lines = []
    for row in of_table(rows, "channel_events"):
        client = chr(int(re.split(r"[.:]", row["channel_id"])[3]) - 2 + ord("a"))
        end = f"end {client} {row['kind']} {row['closed_by']} {second(row['effect_time'])} {row['silent_ms'] // 1_000}"
        lines.append((row["seq"], end))
    for row in facts(rows, *FACTS):
        until = row["properties"] or ""
        until = f"until {second(int(until.removeprefix('until_ms=')) * 1_000)} " if "until" in until else ""
        lines.append((row["seq"], f"fact {row['kind']} {second(row['effect_time'])} {until}{row['evidence']}"))
    return [line for _, line in sorted(lines)]


def asked_for(wanted: list[str], rows: list[AnyRow], ignored: dict[str, int]) -> list[str]:
    """Return what further lines ask for: rows of tables, and what was ignored."""
    lines = []
    for table in dict.fromkeys(line.split()[1] for line in wanted if line.startswith(("row ", "no "))):
        of = sorted(of_table(rows, table), key=lambda row: (row["event_time"], row["effect_time"]))
        columns = [re.findall(r" (\w+)=", line) for line in wanted if line.startswith(f"row {table} ")]
        for number, row in enumerate(of):
            told = "".join(f" {name}={row[name]}" for name in (columns[number] if number < len(columns) else ()))
            lines.append(f"row {table} {second(row['event_time'])} {second(row['effect_time'])}{told}")
        lines += [] if of else [f"no {table}"]
    return lines + [
        f"ignored {n} {ignored.get(n, 0)}" for _, n, *_ in map(str.split, wanted) if n.startswith("request:")
    ]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_what_packets_tell(block: str) -> None:
    """Each frame is an event, an answer, or ignored by a rule; cut into two files anywhere, the same stands in the end."""
    lines = block.splitlines()[1:]
    talks = []
    for number, line in enumerate(line for line in lines if line[0] not in "=?"):
        name, _, words = line.partition(": ")
        talks.append(Line(name, number))
        talks[-1].tell(words)
    segments = merged(*talks) if len(talks) > 1 else talks[0].segments  # as recorded, also where the clock goes back
    transcript = Transcript(namesrv=[NAMESRV])
    rows = read(segments, transcript, [line[2:].split() for line in lines if line.startswith("? ")])
    assert accounted(transcript.counts) == transcript.counts.frames + transcript.counts.pieces
    wanted = [line[2:] for line in lines if line.startswith("= ")]
    shown = [*found(rows), *asked_for(wanted, rows, transcript.counts.ignored)]
    pairs = zip_longest(shown, wanted, fillvalue="")
    assert [" ".join(line.split()[: len(of.split()) or None]) for line, of in pairs] == wanted
    if "? cut anywhere" in lines:
        stand = standing(rows)
        for cut in range(0, len(segments), len(segments) // 30 + 1):
            assert standing(in_parts(segments, cut)) == stand


def standing(rows: list[AnyRow]) -> dict[tuple[str, str], dict[str, object]]:
    """Return the events that stand in the end."""
    return {
        k: {n: v for n, v in row.items() if n != "seq"} for k, row in final(rows).items() if k[0] != "topic_configs"
    }
