"""Checkpoints that somebody keeps outside the warehouse: a line of JSON, signed or not."""

from __future__ import annotations

import json
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from jobs.errors import TamperedError, UsageError
from jobs.store.published import Noted

_SIGNATURE, _KEY = "ed25519", "public_key"


def signed(checkpoint: Noted, key: str) -> str:
    """Return the line of a checkpoint with its signature; `key`: a file with an Ed25519 key in PEM. Raises UsageError."""
    try:
        private = serialization.load_pem_private_key(Path(key).read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"key {key}: cannot be read: {error}") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise UsageError(f"key {key}: is no Ed25519 key")
    line = checkpoint.text().rstrip()
    added = {_SIGNATURE: private.sign(line.encode()).hex(), _KEY: private.public_key().public_bytes_raw().hex()}
    return json.dumps({**json.loads(line), **added})


def kept_checkpoint(given: str) -> Noted:
    """Return the checkpoint that a line says, or a file with one. Raises UsageError, TamperedError for a false signature."""
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
    return found
