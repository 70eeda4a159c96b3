"""A name server's configuration over time.

How a value is known, in this order: given by the operator; stated by the server itself (GET_NAMESRV_CONFIG); inferred from
what it answered and did; inherited from the process before; RocketMQ's default. UPDATE_NAMESRV_CONFIG changes a value from then
on. A value found holds from the start of the process that it was found in, also for days before the evidence.

Sources: RocketMQ 4.9.7 and 5.4.0, classes NamesrvConfig, NettyServerConfig, Configuration, NamesrvStartup,
DefaultRequestProcessor.updateConfig. What a server says of all its properties: `configuration`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from namesrv_core.inference.configuration import configurations
from namesrv_core.inference.settings import (
    OPTIONS,
    SCAN_PHASE,
    VERSION,
    Known,
    Life,
    Setting,
    Source,
    Statement,
    Value,
    Votes,
    default_of,
)
from namesrv_core.machine.profile import Profile, profile_named

_ENOUGH = 2


def settle(known: Known) -> list[Setting]:
    """Return every value that held on the day, by process, each from where it held."""
    latest = dict(known.before)
    found: list[Setting] = []
    for life, until_seq in zip(known.lives, [*(life.from_seq for life in known.lives[1:]), None], strict=True):
        said = [s for s in known.statements if life.from_seq <= s.seq and (until_seq is None or s.seq < until_seq)]
        version = _version(known, life, latest.get(VERSION))
        profile = profile_named(str(version.value))
        own = [option for option in OPTIONS.values() if option.in_4x or profile.live_key_has_cluster]
        starts = [_at_start(known, life, option.name, said, latest.get(option.name), profile) for option in own]
        has_file = _has_file(said, starts, profile)
        settings = [version]
        for start in starts:
            settings += _through(start, said, has_file=has_file)
        settings += _phase(known, life, latest.get(SCAN_PHASE))
        settings += configurations(life, said, latest, version, has_file=has_file)
        latest.update((setting.name, setting) for setting in settings)
        found += settings
    return found


def reconsidered(settled: Iterable[Setting], before: Mapping[str, Setting]) -> list[Setting]:
    """Return the settings that turn out to have had another value, since their process started, than was taken before.

    The days of that process before this one were replayed with the wrong value, or without the phase of its scans. A phase
    that has changed is a clock that was set, and says nothing of those days.
    """
    return [
        setting
        for setting in settled
        if (old := before.get(VERSION if setting.name == SCAN_PHASE else setting.name)) is not None
        and (old.life_seq, old.from_seq) == (setting.life_seq, setting.from_seq)
        and (SCAN_PHASE not in before if setting.name == SCAN_PHASE else old.value != setting.value)
    ]


def _version(known: Known, life: Life, last: Setting | None) -> Setting:
    """Return the version of a process: in a life it cannot change."""
    mine = last if last is not None and last.life_seq == life.from_seq and last.source is not Source.GIVEN else None
    seen = (life.version_id,) if life.version_id is not None else ()
    in_order = (
        _started(VERSION, known.given[VERSION], Source.GIVEN, life) if VERSION in known.given else None,
        mine if mine is not None and mine.source is Source.STATED else None,
        _started(VERSION, life.version, Source.STATED, life, seen, (1, 0)) if life.version is not None else None,
        known.hindsight.get((VERSION, life.from_seq)),
        mine,
        _inherited(last, life) if last is not None and last.source is not Source.GIVEN else None,
    )
    default = _started(VERSION, known.fallback_version, Source.DEFAULT, life)
    return next((setting for setting in in_order if setting is not None), default)


def _at_start(
    known: Known, life: Life, name: str, said: Sequence[Statement], last: Setting | None, profile: Profile
) -> Setting:
    """Return the value with which the process started, or with which it went into the day: the first that is known."""
    mine = last if last is not None and last.life_seq == life.from_seq and last.source is not Source.GIVEN else None
    later = known.hindsight.get((name, life.from_seq))
    in_order = (
        mine if mine is not None and mine.source is Source.CHANGED else None,
        _started(name, known.given[name], Source.GIVEN, life) if name in known.given else None,
        mine if mine is not None and mine.source is Source.STATED else None,
        _stated(said, name, life),
        later if later is not None and later.source is Source.STATED else None,
        mine if mine is not None and not mine.source.is_open else None,
        _voted(known.votes, name, life),
        later,
        mine,
        _inherited(last, life) if last is not None and last.source is not Source.GIVEN else None,
    )
    default = _started(name, default_of(name, profile), Source.DEFAULT, life)
    return next((setting for setting in in_order if setting is not None), default)


def _phase(known: Known, life: Life, last: Setting | None) -> list[Setting]:
    """Return when the process scans, if that is known.

    A phase that was found stays, unless two closes of the day or more agree on another one and none on this.
    """
    mine = last if last is not None and last.life_seq == life.from_seq else None
    cast = [v for v in known.votes if (v.name, v.life_seq) == (SCAN_PHASE, life.from_seq)]
    voted = _voted(cast, SCAN_PHASE, life)
    if mine is not None and (voted is None or voted.answers_for < _ENOUGH or mine.value in (v.value for v in cast)):
        voted = None
    found = voted or mine or known.hindsight.get((SCAN_PHASE, life.from_seq))
    return [] if found is None else [found]


def _stated(said: Sequence[Statement], name: str, life: Life) -> Setting | None:
    """Return what the server says of itself before anything was changed."""
    first = next((statement for statement in said if name in statement.values), None)
    if first is None or first.changes:
        return None
    return _started(name, first.values[name], Source.STATED, life, (first.event_id,), (1, 0))


def _voted(votes: Sequence[Votes], name: str, life: Life) -> Setting | None:
    """Return the value with the most support; None where two have the same."""
    own = sorted((v for v in votes if (v.name, v.life_seq) == (name, life.from_seq)), key=lambda v: -v.answers)
    if not own or (len(own) > 1 and own[0].answers == own[1].answers):
        return None
    best, others = own[0], sum(v.answers for v in own[1:])
    return _started(name, best.value, Source.INFERRED, life, best.evidence, (best.answers, others))


def _started(
    name: str,
    value: Value,
    source: Source,
    life: Life,
    evidence: tuple[str, ...] = (),
    answers: tuple[int, int] = (0, 0),
) -> Setting:
    """Return a setting with which a process started; `answers`: those for it, and those against."""
    return Setting(name, value, source, life.from_seq, life.from_seq, value, evidence, *answers)


def _inherited(last: Setting, life: Life) -> Setting:
    """Return what a new process has from the one before: its file's values, or its own start's.

    A change made while running that went into no file is lost; what is left is nobody's finding.
    """
    is_known = last.source is not Source.DEFAULT and last.restart_value == last.value
    return last._replace(
        value=last.restart_value,
        source=Source.INHERITED if is_known else Source.DEFAULT,
        from_seq=life.from_seq,
        life_seq=life.from_seq,
        evidence=last.evidence if is_known else (),
        answers_for=last.answers_for if is_known else 0,
        answers_against=last.answers_against if is_known else 0,
    )


def _has_file(said: Sequence[Statement], starts: Sequence[Setting], profile: Profile) -> bool:
    """Return whether the process was started with a configuration file: it says so, or something is not the default.

    A change is written to the file named at the start (`-c`), and the next start reads it from there. Without one it
    is written to a place where no start looks.
    """
    stated = [s.has_file for s in said if s.has_file is not None]
    if stated:
        return stated[-1]
    return any(
        start.source is not Source.CHANGED and start.value != default_of(start.name, profile) for start in starts
    )


def _through(start: Setting, said: Sequence[Statement], *, has_file: bool) -> list[Setting]:
    """Return the values of one setting through the life of a process, as changes and later statements have it."""
    values = [start]
    for statement in said:
        if start.name not in statement.values:
            continue
        now, value = values[-1], statement.values[start.name]
        if statement.seq <= now.from_seq:
            continue
        if statement.changes:
            restart_value = value if has_file else now.restart_value
            if OPTIONS[start.name].read_at_start:
                values[-1] = now._replace(restart_value=restart_value)
            else:
                values.append(_next(now, statement, Source.CHANGED, restart_value))
        elif value != now.value and now.source is Source.GIVEN:
            values[-1] = now._replace(answers_against=now.answers_against + 1)
        elif value != now.value:
            # Changed by something that was not recorded.
            values.append(_next(now, statement, Source.STATED, value))
    return values


def _next(now: Setting, statement: Statement, source: Source, restart_value: Value) -> Setting:
    value = statement.values[now.name]
    return Setting(now.name, value, source, statement.seq, now.life_seq, restart_value, (statement.event_id,), 1)
