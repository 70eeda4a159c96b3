"""A name server's configuration over time.

How a value is known, in this order: given by the operator; stated by the server itself (GET_NAMESRV_CONFIG); inferred from
what it answered and did; inherited from the process before; RocketMQ's default. UPDATE_NAMESRV_CONFIG changes a value from then
on. A value found holds from the start of the process that it was found in, also for days before the evidence.

Sources: RocketMQ 4.9.7 and 5.4.0, classes NamesrvConfig, NettyServerConfig, Configuration, NamesrvStartup,
DefaultRequestProcessor.updateConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
from namesrv_core.machine.profile import profile_named

_ENOUGH = 2


def settle(known: Known) -> list[Setting]:
    """Return every value that held on the day, by process, each from where it held."""
    latest = dict(known.before)
    found: list[Setting] = []
    for life, until_seq in zip(known.lives, [*(life.from_seq for life in known.lives[1:]), None], strict=True):
        said = [s for s in known.statements if life.from_seq <= s.seq and (until_seq is None or s.seq < until_seq)]
        seen = None
        if life.version is not None:
            ids = () if life.version_id is None else (life.version_id,)
            seen = _started(VERSION, life.version, Source.STATED, life, ids, (1, 0))
        version = _at_start(known, life, VERSION, seen, latest.get(VERSION), known.fallback_version)
        profile = profile_named(str(version.value))
        starts = []
        for option in OPTIONS.values():
            if option.in_4x or profile.live_key_has_cluster:
                first = next((statement for statement in said if option.name in statement.values), None)
                stated = None
                if (
                    first is not None and not first.changes
                ):  # what the server says of itself before anything was changed
                    value = first.values[option.name]
                    stated = _started(option.name, value, Source.STATED, life, (first.event_id,), (1, 0))
                default = default_of(option.name, profile)
                starts.append(_at_start(known, life, option.name, stated, latest.get(option.name), default))
        # A change is written to the file named at the start (`-c`), and the next start reads it from there. Without one it is
        # written to a place where no start looks. The process says whether it has one, or something is not the default.
        told = [statement.has_file for statement in said if statement.has_file is not None]
        has_file = (
            told[-1]
            if told
            else any(one.source is not Source.CHANGED and one.value != default_of(one.name, profile) for one in starts)
        )
        settings = [version]
        for start in starts:
            settings += _through(start, said, has_file=has_file)
        settings += _phase(known, life, latest.get(SCAN_PHASE))
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


def _at_start(
    known: Known, life: Life, name: str, stated: Setting | None, last: Setting | None, default: Value
) -> Setting:
    """Return the value with which the process started, or with which it went into the day: the first that is known."""
    last = last if last is not None and last.source is not Source.GIVEN else None
    mine = last if last is not None and last.life_seq == life.from_seq else None
    later = known.hindsight.get((name, life.from_seq))
    in_order = (
        mine if mine is not None and mine.source is Source.CHANGED else None,
        _started(name, known.given[name], Source.GIVEN, life) if name in known.given else None,
        mine if mine is not None and mine.source is Source.STATED else None,
        stated,
        later if later is not None and later.source is Source.STATED else None,
        mine if mine is not None and not mine.source.is_open else None,
        _voted(known.votes, name, life),
        later,
        mine,
        None if last is None else _inherited(last, life),
    )
    return next((one for one in in_order if one is not None), _started(name, default, Source.DEFAULT, life))


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


def _through(start: Setting, said: Sequence[Statement], *, has_file: bool) -> list[Setting]:
    """Return the values of one setting through the life of a process, as changes and later statements have it."""
    values = [start]
    for statement in said:
        now = values[-1]
        if start.name not in statement.values or statement.seq <= now.from_seq:
            continue
        value = statement.values[start.name]
        following = now._replace(
            value=value, from_seq=statement.seq, evidence=(statement.event_id,), answers_for=1, answers_against=0
        )
        if statement.changes:
            restart_value = value if has_file else now.restart_value
            if OPTIONS[start.name].read_at_start:
                values[-1] = now._replace(restart_value=restart_value)
            else:
                values.append(following._replace(source=Source.CHANGED, restart_value=restart_value))
        elif value != now.value and now.source is Source.GIVEN:
            values[-1] = now._replace(answers_against=now.answers_against + 1)
        elif value != now.value:
            # Changed by something that was not recorded.
            values.append(following._replace(source=Source.STATED, restart_value=value))
    return values
