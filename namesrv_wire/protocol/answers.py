"""Answers as frames: what a name server of a release writes back.

Source: RocketMQ 4.9.7 and 5.3.3 `RemotingCommand`, `RocketMQSerializable`, `NettyRemotingAbstract.processRequestCommand`,
`DefaultRequestProcessor`, `FAQUrl`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from namesrv_core.asking.answers import writer
from namesrv_core.machine.codes import Answer, RequestCode, ResponseCode
from namesrv_core.machine.java_map import string_map
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.register import REGISTER_FAILED
from namesrv_wire.protocol.frames import FIXED, JSON, LANGUAGES, ONE_WAY, RESPONSE, ROCKETMQ, Frame

_TOLD: Final = frozenset(
    {"crc32 not match", "namespace or key is null", "disable", "string2Properties error", REGISTER_FAILED}
)
"""Errors that a request's processor tells; all others are exceptions that left it, and are answered without its header."""
_WITH_HEADER: Final = frozenset(
    {
        *(RequestCode.GET_KV_CONFIG, RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION),
        *(RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER),
    }
)
"""Requests whose answers have header fields, even if they are none; an exception's answer has not."""
_FAQ: Final = {"http": "faq/", "https": "bestPractice/06FAQ"}
_JAVA: Final = LANGUAGES.index("JAVA")
_LENGTHS, _INT, _SHORT = Struct(">iI"), Struct(">i"), Struct(">h")


def answer_frame(answer: Answer, body: bytes, asked: Frame, opaque: int, namesrv: Namesrv, version: int) -> bytes:
    """Return the frame of an answer to `asked`, which came with this `opaque`. `body`: the answer's, as bytes.

    `version`: of the name server, as an ordinal of MQVersion. Since 4.9.4 a 4.x answers in the serialization in which it was asked;
    all others answer in JSON.
    """
    remark, fields = answer.remark, dict(answer.fields) if answer.fields else None
    is_thrown = answer.code == ResponseCode.SYSTEM_ERROR and remark not in _TOLD
    if fields is None and asked.code in _WITH_HEADER and not is_thrown:
        fields = {}
    of_4x = not namesrv.profile.has_topic_registration
    alike = of_4x and namesrv.profile.writes_standard_json and not is_thrown
    serialization = asked.serialization if alike else JSON
    if serialization == ROCKETMQ:
        header = _binary(int(answer.code), version, opaque, remark, fields)
    else:
        header = _json(int(answer.code), opaque, remark, fields, namesrv, version)
    return _framed(header, body, serialization)


def completed(answer: Answer, namesrv: Namesrv) -> Answer:
    """Return an answer with its remark up to the end, which releases without a change of behaviour may write otherwise."""
    if answer.code != ResponseCode.TOPIC_NOT_EXIST or answer.remark is None:
        return answer
    return answer._replace(remark=f"{answer.remark}{_FAQ[namesrv.profile.faq_scheme]} for further details.")


def one_way_frame(code: int, fields: dict[str, str], opaque: int, namesrv: Namesrv, version: int) -> bytes:
    """Return the frame of a request that a name server sends and that nobody answers."""
    return _framed(_json(code, opaque, None, fields, namesrv, version, ONE_WAY), b"", JSON)


def _framed(header: bytes, body: bytes, serialization: int) -> bytes:
    return b"".join(
        (_LENGTHS.pack(4 + len(header) + len(body), serialization << 24 | len(header)), header, body),
    )


def _json(
    code: int,
    opaque: int,
    remark: str | None,
    fields: dict[str, str] | None,
    namesrv: Namesrv,
    version: int,
    flag: int = RESPONSE,
) -> bytes:
    write = writer(namesrv)
    ext = None
    if fields is not None:
        in_order = string_map(entries=fields.items()).java_items()
        ext = write.mapping((name, write.text(value)) for name, value in in_order)
    header = write.record(
        [
            ("code", str(code)),
            ("extFields", ext),
            ("flag", str(flag)),
            ("language", '"JAVA"'),
            ("opaque", str(opaque)),
            ("remark", write.text(remark)),
            ("serializeTypeCurrentRPC", '"JSON"'),
            ("version", str(version)),
        ]
    )
    return header.encode("utf-8", "replace")


def _binary(code: int, version: int, opaque: int, remark: str | None, fields: dict[str, str] | None) -> bytes:
    text = (remark or "").encode("utf-8", "replace")
    parts = []
    for name, value in string_map(entries=(fields or {}).items()).java_items():
        key, said = (name or "").encode("utf-8", "replace"), value.encode("utf-8", "replace")
        parts += [_SHORT.pack(len(key)), key, _INT.pack(len(said)), said]
    ext = b"".join(parts)
    fixed = FIXED.pack(code, _JAVA, version, opaque, RESPONSE)
    return b"".join((fixed, _INT.pack(len(text)), text, _INT.pack(len(ext)), ext))
