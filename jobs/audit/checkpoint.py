"""Checkpoints kept outside the warehouse: a line of JSON, optionally with a signature and a time stamp.

With a checkpoint its holder can have the proof that a row was published: some 2 kB, checked with SHA-256 alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from pathlib import Path
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.compute as pc
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from jobs.errors import AS_KEPT, JobError, TamperedError, UsageError, first_line
from jobs.store.files import DataFile, batches_of, is_rooted, joins_of
from jobs.store.ledger import leaf_of, leaves_of, nodes_beside, root_of, text_of, texts_of
from jobs.store.published import Noted
from jobs.store.warehouse import Warehouse
from schemas.rules import TABLES

_MAX_ROWS = 100
_SIGNATURE, _KEY, _STAMP = "ed25519", "public_key", "rfc3161"
_ASKED = bytes.fromhex("30390201013031300d060960864801650304020105000420"), bytes.fromhex("0101ff")
"""Bytes before and after the hash in a TimeStampReq (RFC 3161, 2.4.1): version 1, SHA-256; the certificate is wanted."""


def checkpoint_line(checkpoint: Noted, key: str | None, service: str | None) -> str:
    """Return the line of a checkpoint, with its proofs: a signature, the time stamp of a service.

    `key`: a file with an Ed25519 key in PEM. `service`: URL. Both prove the line without them. Raises UsageError, JobError.
    """
    line = json.loads(checkpoint.text())
    if key is not None:
        try:
            private = serialization.load_pem_private_key(Path(key).read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"key {key}: cannot be read: {error}") from error
        if not isinstance(private, Ed25519PrivateKey):
            raise UsageError(f"key {key}: is not an Ed25519 key")
        line[_SIGNATURE] = private.sign(checkpoint.text().rstrip().encode()).hex()
        line[_KEY] = private.public_key().public_bytes_raw().hex()
    if service is not None:
        # With the service's certificate its answer (RFC 3161) proves when the line existed.
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
            size = len(answer)
            raise JobError(f"time stamp service {service}: its answer of {size} bytes is no time stamp of this line")
        line[_STAMP] = base64.b64encode(answer).decode()
    return json.dumps(line)


def _digest(checkpoint: Noted) -> bytes:
    return hashlib.sha256(checkpoint.text().rstrip().encode()).digest()


def kept_checkpoint(given: str) -> Noted:
    """Return the checkpoint of a line, or of a file with one. Raises UsageError, or TamperedError if it proves another line."""
    text = given
    if "{" not in given:
        try:
            text = Path(given).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(f"checkpoint {given}: cannot be read: {error}") from error
    try:
        noted = json.loads(text[text.index("{") :])
        found = Noted.of(noted)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError("checkpoint: expected a line as runs and `check` print it") from error
    if _SIGNATURE in noted:
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(noted[_KEY])))
            key.verify(bytes.fromhex(str(noted[_SIGNATURE])), found.text().rstrip().encode())
        except (InvalidSignature, ValueError, KeyError) as error:
            raise TamperedError(
                f"checkpoint of run {found.run_id}: its signature is not that of the key it names", AS_KEPT
            ) from error
    if _STAMP in noted and _digest(found) not in base64.b64decode(str(noted[_STAMP])):
        raise TamperedError(f"checkpoint of run {found.run_id}: its time stamp is of another line", AS_KEPT)
    return found


def proofs(warehouse: Warehouse, checkpoint: Noted, name: str, values: Mapping[str, str]) -> Iterator[str]:
    """Yield the proof, a line of JSON, for each row of a table with these values, as of the run of a checkpoint.

    At most 100. Raises UsageError if there is no such row, table or column, or a text does not fit its column; TamperedError for
    a file that is not as published.
    """
    table, chain = TABLES.get(name), warehouse.chain()
    if table is None or not is_rooted(table):
        raise UsageError(f"{name}: not a table whose rows the chain covers with roots")
    if unknown := values.keys() - set(table.stored_schema.names):
        raise UsageError(f"{name}: has no stored column {', '.join(sorted(unknown))}")
    previous, run = chain.parts(checkpoint.run_id)
    files, found = chain.files(checkpoint.run_id), 0
    keys = sorted(files)
    entries = [leaf_of(text_of(files[key].row())) for key in keys]
    for number, key in enumerate(keys):
        if key[0] != name:
            continue
        entry = files[key]
        file = DataFile(entry.path, 0, 0, None)
        rows = pa.concat_tables(batches_of(warehouse.path, table, [file])).select(table.stored_schema.names)
        try:
            same = [pc.equal(rows[column], pa.scalar(text).cast(rows[column].type)) for column, text in values.items()]
        except pa.ArrowException as error:
            raise UsageError(f"{dict(values)}: {error}") from error
        matched = pc.indices_nonzero(pc.fill_null(reduce(pc.and_, same), fill_value=False)).to_pylist()
        if not matched:
            continue
        leaves, ends = leaves_of(rows), [0, *accumulate(joins_of(warehouse.path, table, file))]
        for place in matched:
            begin = max(end for end in ends if end <= place)
            piece = leaves[begin : ends[ends.index(begin) + 1]]
            if root_of(piece) not in {root for _, root in entry.pieces}:
                raise TamperedError(f"{name}: {entry.path} does not have the rows that were published")
            if (found := found + 1) > _MAX_ROWS:
                raise UsageError(f"{name}: more than {_MAX_ROWS} rows are {dict(values)}: name more columns")
            (text,) = texts_of(rows.slice(place, 1))
            ways = (_path_of(piece, place - begin), _path_of(entries, number))
            yield text_of([text, *ways[0], text_of(entry.row()), *ways[1], previous, run])
    if not found:
        raise UsageError(f"{name}: run {checkpoint.run_id} has no row with {dict(values)}")


def _path_of(leaves: Sequence[bytes], index: int) -> tuple[int, int, str]:
    """Return the index of a leaf, the number of leaves, and the nodes beside its way to the root, concatenated."""
    return index, len(leaves), base64.b64encode(nodes_beside(leaves, index)).decode()
