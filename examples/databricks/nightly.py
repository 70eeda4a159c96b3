"""A command of namesrv-history as a task of Databricks, where a process may not end itself and only an exception is a failure."""

import os
import sys
import time

from namesrv_history.jobs.__main__ import main

os.environ.update(TZ="UTC", GX_ANALYTICS_ENABLED="false")
time.tzset()
if code := main(sys.argv[1:]):
    raise RuntimeError(f"namesrv-history ended with code {code}: see docs/reference.md, exit codes")
