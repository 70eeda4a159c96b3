"""Checkpoints that somebody keeps outside the warehouse: a line of JSON, signed or not, with a time stamp or without."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from urllib.request import Request, urlopen

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from jobs.errors import JobError, TamperedError, UsageError, first_line
from jobs.store.published import Noted

_SIGNATURE, _KEY, _STAMP = "ed25519", "public_key", "rfc3161"
_ASKED = bytes.fromhex("30390201013031300d060960864801650304020105000420"), bytes.fromhex("0101ff")
"""What stands before and behind the hash in a TimeStampReq (RFC 3161, 2.4.1): version 1, SHA-256; the certificate is wanted."""


def told(checkpoint: Noted, key: str | None, service: str | None) -> str:
    """Return the line of a checkpoint, with what proves it: a signature, the time stamp of a service.

    `key`: a file with an Ed25519 key in PEM. `service`: URL. Both are about the line without them. Raises UsageError, JobError.
    """
    added = {
        **({} if key is None else _signed(checkpoint, key)),
        **({} if service is None else _stamped(checkpoint, service)),
    }
    return json.dumps({**json.loads(checkpoint.text()), **added})


def _stamped(checkpoint: Noted, service: str) -> dict[str, str]:
    """Return the answer of a time stamp service (RFC 3161): who knows its certificate proves by it when the line was there."""
    if not service.startswith(("http://", "https://")):
        raise UsageError(
            f"--timestamp {service}: the URL of a time stamp service (RFC 3161) is expected, http or https"
        )
    digest = _digest(checkpoint)
    asked = Request(service, digest.join(_ASKED), {"Content-Type": "application/timestamp-query"})  # noqa: S310  see above
    try:
        with urlopen(asked, timeout=30) as response:  # noqa: S310
            answer: bytes = response.read(1 << 16)
    except (OSError, ValueError) as error:
        raise JobError(f"time stamp service {service}: {first_line(error)}") from error
    if digest not in answer:
        raise JobError(f"time stamp service {service}: answers {len(answer)} bytes, and no time stamp of this line")
    return {_STAMP: base64.b64encode(answer).decode()}


def _digest(checkpoint: Noted) -> bytes:
    return hashlib.sha256(checkpoint.text().rstrip().encode()).digest()


def _signed(checkpoint: Noted, key: str) -> dict[str, str]:
    try:
        private = serialization.load_pem_private_key(Path(key).read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"key {key}: cannot be read: {error}") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise UsageError(f"key {key}: is no Ed25519 key")
    line = checkpoint.text().rstrip()
    return {_SIGNATURE: private.sign(line.encode()).hex(), _KEY: private.public_key().public_bytes_raw().hex()}


def kept_checkpoint(given: str) -> Noted:
    """Return the checkpoint that a line says, or a file with one. Raises UsageError, TamperedError for what proves another."""
    text = given
    if "{" not in given:
        try:
            text = Path(given).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"checkpoint {given}: cannot be read: {error}") from error
    try:
        said = json.loads(text[text.index("{") :])
        found = Noted.of(said)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError("checkpoint: a line is expected as runs and `check` print it") from error
    if _SIGNATURE in said:
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(said[_KEY])))
            key.verify(bytes.fromhex(str(said[_SIGNATURE])), found.text().rstrip().encode())
        except (InvalidSignature, ValueError, KeyError) as error:
            raise TamperedError(
                f"checkpoint of run {found.run_id}: its signature is not that of the key it names"
            ) from error
    if _STAMP in said and _digest(found) not in base64.b64decode(str(said[_STAMP])):
        raise TamperedError(f"checkpoint of run {found.run_id}: its time stamp is of another line")
    return found
