"""RocketMQ's name server as pure state transitions: no clock, no I/O, standard library only.

`step` says what an event does to a registry, `take` does it, `answer` says what the name server would reply.
"""

from namesrv_core.asking.answers import answer
from namesrv_core.machine.codes import Answer, Question
from namesrv_core.machine.profile import PROFILES, V4_9_7, V5_4_0, Namesrv, NamesrvConfig, Profile, profile_of_version
from namesrv_core.machine.registry import Change, Outcome, Registry, Step
from namesrv_core.machine.step import step
from namesrv_core.replay.loop import take

__all__ = [
    "PROFILES",
    "V4_9_7",
    "V5_4_0",
    "Answer",
    "Change",
    "Namesrv",
    "NamesrvConfig",
    "Outcome",
    "Profile",
    "Question",
    "Registry",
    "Step",
    "answer",
    "profile_of_version",
    "step",
    "take",
]
