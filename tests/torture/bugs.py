"""The book of bugs: each is put back into a copy of the source, one by one, and a named test has to see it.

A bug is the text that is right, the text that was wrong, and the test. The test passes on the copy as it is, too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[2]


class Bug(NamedTuple):
    """What it does, where it was, and the test that sees it."""

    what: str
    file: str
    right: str
    wrong: str
    test: str


def _hidden(what: str, file: str, right: str, wrong: str, attack: str) -> Bug:
    """Return a bug by which a rewrite is hidden."""
    return Bug(what, file, right, wrong, f"{_ATTACKED}[{attack}]")


_ATTACKED = "tests/store/test_chain.py::test_what_somebody_does_who_knows_this_software_is_named"
BUGS = (
    Bug(
        "a surrogate that is cut is two replacement characters",
        "namesrv_wire/json_text.py",
        r'rb"\xed[\xa0-\xbf][\x80-\xbf]?"',
        r'rb"\xed[\xa0-\xbf][\x80-\xbf]"',
        "tests/wire/test_frames.py::test_bytes_that_are_no_utf8_become_replacement_characters",
    ),
    Bug(
        "a string of negative length is read",
        "namesrv_wire/protocol/frames.py",
        "if size < 0 or size > limit or start + size > len(data):",
        "if size > limit or start + size > len(data):",
        "tests/wire/test_frames.py::test_string_lengths_of_a_binary_header_are_bounded",
    ),
    Bug(
        "any number of header fields is taken",
        "namesrv_wire/protocol/frames.py",
        "    if len(fields) > MAX_EXT_FIELDS:",
        "    if len(fields) > 1 << 40:",
        "tests/wire/test_frames.py::test_too_many_ext_fields_are_refused_in_both_serializations",
    ),
    Bug(
        "a log is late by a day more than its limit",
        "namesrv_wire/lateness.py",
        "name: us // _DAY_US - limit_days for",
        "name: us // _DAY_US - limit_days - 1 for",
        "tests/wire/test_lateness.py::test_what_lies_further_back_than_the_limit_is_refused_and_nothing_is_lost",
    ),
    Bug(
        "a quota that is used up is no full disk",
        "jobs/errors.py",
        "if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):",
        "if isinstance(error, OSError) and error.errno == errno.ENOSPC:",
        "tests/store/test_lock.py::test_a_full_disk_is_told_from_other_failures",
    ),
    Bug(
        "a disk that is full while a log is read has it refused for ever",
        "jobs/ingest/reading.py",
        """    found = [_written(part, f"{part.name}-{number}", block) for number, block in enumerate(blocks)]""",
        """    written = UntilItStops(_written(part, f"{part.name}-{number}", block) for number, block in enumerate(blocks))
    found = [*written]
    blocks.stopped = blocks.stopped or written.stopped""",
        "tests/ingest/test_ingest.py::test_what_cannot_be_written_is_no_fault_of_the_log_that_is_read",
    ),
    Bug(
        "a disk that is full while a capture is read is a fault of the capture",
        "jobs/ingest/series.py",
        """            self._add(transcript, rows)
        self._held +=""",
        """            try:
                self._add(transcript, rows)
            except OSError as why:
                read.stopped = why
                break
        self._held +=""",
        "tests/ingest/test_ingest.py::test_a_disk_that_is_full_while_a_capture_is_read_is_no_fault_of_it",
    ),
    Bug(
        "a footer whose names are no text is a stack trace",
        "jobs/store/files.py",
        "file.size()\n    except (OSError, ValueError, pa.ArrowException)",
        "file.size()\n    except (OSError, pa.ArrowException)",
        "tests/store/test_files.py::test_a_footer_with_a_name_that_is_no_text_is_named",
    ),
    Bug(
        "two runs hold the warehouse",
        "jobs/store/places.py",
        "_take(file, fcntl.LOCK_EX, warehouse)",
        "_take(file, fcntl.LOCK_SH, warehouse)",
        "tests/store/test_lock.py::test_a_second_run_is_told_who_is_writing",
    ),
    Bug(
        "a dead process is named as the one that writes",
        "jobs/store/places.py",
        "    except ProcessLookupError:\n        return False",
        "    except ProcessLookupError:\n        return True",
        "tests/store/test_lock.py::test_a_process_that_is_dead_is_not_named",
    ),
    Bug(
        "a leaf without a partner is left out of the root",
        "jobs/store/chain.py",
        "    return joined + list(level[2 * len(joined) :])",
        "    return joined",
        "tests/store/test_chain.py::test_each_leaf_of_a_tree_is_proven",
    ),
    Bug(
        "leaves are hashed as nodes are",
        "jobs/store/chain.py",
        r'hashlib.sha256(b"\0" + text.encode())',
        r'hashlib.sha256(b"\1" + text.encode())',
        "tests/store/test_chain.py::test_a_row_is_proven_by_its_run_with_less_than_2_kb",
    ),
    Bug(
        "the chain does not hold the root of the files",
        "jobs/store/chain.py",
        'said = f"{previous} {files_root} ',
        'said = f"{previous} {FIRST} ',
        "tests/store/test_chain.py::test_the_verifier_agrees_with_check",
    ),
    Bug(
        "any signature is good",
        "jobs/audit/checkpoint.py",
        "            key.verify(",
        "            bool(",
        "tests/store/test_chain.py::test_a_signed_checkpoint_is_a_checkpoint",
    ),
    _hidden(
        "rows that a later run moved to another day count as kept",
        "jobs/store/check.py",
        "return {(entry.table, posixpath.dirname(entry.path), piece) for piece in entry.pieces}",
        'return {("", "", piece) for piece in entry.pieces}',
        "another_day",
    ),
    _hidden(
        "a checkpoint of a log says what it likes",
        "jobs/store/check.py",
        "                self._compare(number)\n",
        "                pass\n",
        "statistics_in_checkpoint",
    ),
    _hidden(
        "rows that a later run published a second time are not told",
        "jobs/store/check.py",
        "if piece in old})",
        "if piece in ()})",
        "rows_twice",
    ),
    _hidden(
        "a file of the ledger that reads in two ways is the ledger",
        "jobs/store/check.py",
        "for path in sorted(log.files) if table is gold.RUNS else ():",
        "for path in ():",
        "another_column_of_that_name",
    ),
    _hidden(
        "a later run says anew what is known of a day, and nobody is told",
        "jobs/store/check.py",
        "self.replaced += [*self._published_again(run_id, days), ",
        "self.replaced += [",
        "forget_coverage",
    ),
    _hidden(
        "files that somebody put in the place of published ones are theirs",
        "jobs/store/check.py",
        "count[_folder(entry)] += not _is_in(entry, kept)",
        "count[_folder(entry)] += 0",
        "what_no_digest_has",
    ),
    _hidden(
        "a later run adds what an earlier one had read",
        "jobs/store/check.py",
        "found.update(ingested.intersection(",
        "found.update(set().intersection(",
        "more_of_an_earlier_run",
    ),
    _hidden(
        "any kind of entry in a log will do",
        "jobs/store/check.py",
        "yield from log.strange()",
        "list(log.strange())",
        "compacted_log",
    ),
    _hidden(
        "a view is whatever the file says",
        "jobs/store/check.py",
        "(is_ours := warehouse.is_history_ours()) is not True",
        "(is_ours := warehouse.is_history_ours()) is None",
        "another_view",
    ),
    Bug(
        "a night goes on from files that an earlier row of the ledger was made to list",
        "jobs/store/warehouse.py",
        "if root_of_files(before) != self._end_of_chain().root():",
        "if False:",
        "tests/store/test_chain.py::test_files_that_another_row_lists_end_a_night",
    ),
    Bug(
        "an entry expires at its deadline",
        "namesrv_core/machine/removal.py",
        "expired_at(at_ms)",
        "expired_at(at_ms + 1)",
        "tests/core/test_scenarios.py",
    ),
    Bug(
        "a channel without a live entry takes nothing down in 4.x",
        "namesrv_core/machine/removal.py",
        "_destroyed_addr(keys, event.remote_addr)",
        "_destroyed_addr(keys, None)",
        "tests/core/test_scenarios.py",
    ),
)


@cache
def copied() -> Path:
    """Return a copy of the source."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    to = Path(mkdtemp(prefix="namesrv-bugs-"))
    for name in listed.stdout.splitlines():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, to / name)
    return to


def code_of(*tests: str) -> int:
    """Return the exit code of some tests on the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=copied(), capture_output=True, check=False).returncode


@cache
def code_without(part: int) -> int:
    """Return the exit code of the tests that ten of the bugs name on the copy as it is."""
    return code_of(*sorted({bug.test for bug in BUGS[10 * part : 10 * part + 10]}))


def bugs(seed: int, _: Path) -> tuple[str, str]:
    """Put a bug back into a copy of the source: its test fails; without any of the bugs it passes."""
    number = seed % len(BUGS)
    bug, without = BUGS[number], code_without(number // 10)
    file = copied() / bug.file
    text = file.read_text(encoding="utf-8")
    if text.count(bug.right) != 1:
        return "silent", f"{bug.file} has not once: {bug.right}"
    file.write_text(text.replace(bug.right, bug.wrong), encoding="utf-8")
    try:
        with_it = code_of(bug.test)
    finally:
        file.write_text(text, encoding="utf-8")
    is_seen = (with_it, without) == (1, 0)
    return (
        "refused" if is_seen else "silent"
    ), f"{bug.what}: {bug.test} ends with {with_it}; without a bug it and its neighbours end with {without}"
