"""Rows of route_observations: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import EVENT, ROUTE, SEQ

GOOD = EVENT | {
    "code": 105,
    "subject": "T",
    "request_seq": SEQ,
    "standard_json": False,
    "request_version": 407,
    "response_code": 0,
    "response_version": 407,
    "body": ROUTE,
    "nth": 0,
    "seq_rest": 0,
    "request_rest": 0,
}
PLANTED = {
    "code_belongs_here": {"code": 905, "subject": None},
    "subject_is_of_its_code": {"code": 206},
    "answer_follows_question": {"request_seq": SEQ + 1_000_000},
    "response_fields_are_read": {"response_fields": "[]"},
    "response_code_is_usual": {"response_code": 99},
    "route_has_a_body": {"body": None},
}
