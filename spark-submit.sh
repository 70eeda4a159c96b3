#!/usr/bin/env bash
#
# The one entry: makes its own environment, then runs a job, the tests or the checks in it (jobs/start says how).
#
#   ./spark-submit.sh <job> [options]   options of spark-submit (--master, --conf, ...) may stand anywhere;
#                                       all others are the job's, and so is everything after --
#   ./spark-submit.sh test [options]    pytest; --quick: no JVM, nothing that takes longer than a second, few random examples
#   ./spark-submit.sh setup             make the environment, with an archive of classes for a quicker start, and stop
#   ./spark-submit.sh --help            the jobs, and the developers' commands
#
# Needs Python 3.10 to 3.13, and Java 17 or newer for what starts Spark. Network is needed by the first start only.
# Exit codes: those of the job; 2 when Python or Java is missing or an option is wrong, 1 when set-up fails.
#
#   NAMESRV_PYTHON    the Python to build the environment with    (default: the newest that fits)
#   NAMESRV_VENV      where the environment lives                 (default: .venv in the checkout)
#   NAMESRV_IVY       where JARs and an archive of classes lie     (default: .ivy2 in the checkout)
#   NAMESRV_DRY_RUN   1: print the command instead of running it, one argument a line

set -euo pipefail

readonly EXIT_SETUP_FAILED=1 EXIT_USAGE=2

say() { printf 'namesrv-history: %s\n' "$*" >&2; }

fail() {
  local code=$1
  shift
  say "$@"
  exit "$code"
}

# The checkout, wherever we are called from and through however many symbolic links.
checkout_dir() {
  local source=${BASH_SOURCE[0]} dir
  while [[ -L $source ]]; do
    dir=$(cd -P "$(dirname "$source")" && pwd)
    source=$(readlink "$source")
    [[ $source == /* ]] || source=$dir/$source
  done
  [[ $source == */* ]] || source=./$source
  cd -P "${source%/*}/" && pwd
}

CHECKOUT=$(checkout_dir)
# Every path is made absolute: commands run in the caller's directory, not in the checkout.
VENV=${NAMESRV_VENV:-$CHECKOUT/.venv}
IVY=${NAMESRV_IVY:-$CHECKOUT/.ivy2}
[[ $VENV == /* ]] || VENV=$PWD/$VENV
[[ $IVY == /* ]] || IVY=$PWD/$IVY
VENV_PYTHON=$VENV/bin/python
SETUP_LOG=$VENV.setup.log
readonly CHECKOUT VENV IVY VENV_PYTHON SETUP_LOG

# One command that helps, for the package manager at hand.
install_hint() {
  local apt=$1 dnf=$2 brew=$3 sudo=''
  [[ $(id -u) == 0 ]] || sudo='sudo '
  if command -v apt-get >/dev/null; then
    printf '%sapt-get install -y %s' "$sudo" "$apt"
  elif command -v dnf >/dev/null; then
    printf '%sdnf install -y %s' "$sudo" "$dnf"
  else
    printf 'brew install %s' "$brew"
  fi
}

# 0: fits. 3: right version, but it cannot make virtual environments (Debian packs that apart). Other: does not fit.
python_fits() {
  "$1" - >/dev/null 2>&1 <<'PYTHON'
import sys
if not (3, 10) <= sys.version_info[:2] <= (3, 13):
    sys.exit(4)
try:
    import ensurepip, venv
except ImportError:
    sys.exit(3)
PYTHON
}

# Sets HOST_PYTHON. A version manager may put commands on PATH that only say "not installed", so each one is run.
HOST_PYTHON=''
require_python() {
  local candidate status without_venv='' candidates=(python3.13 python3.12 python3.11 python3.10 python3)
  [[ -z ${NAMESRV_PYTHON:-} ]] || candidates=("$NAMESRV_PYTHON")
  for candidate in "${candidates[@]}"; do
    status=0
    python_fits "$candidate" || status=$?
    case $status in
      0) HOST_PYTHON=$candidate && return ;;
      3) without_venv=${without_venv:-$candidate} ;;
    esac
  done
  if [[ -n $without_venv ]]; then
    say "$without_venv cannot make virtual environments: its venv package is not installed. Install it with:"
    say "  $(install_hint "python3-venv" python3 python@3.12)"
  elif [[ -n ${NAMESRV_PYTHON:-} ]]; then
    say "NAMESRV_PYTHON=$NAMESRV_PYTHON is not a working Python 3.10 to 3.13. Correct it, or:"
    say "  unset NAMESRV_PYTHON"
  else
    say "Python 3.10 to 3.13 is needed (none found). Install it with:"
    say "  $(install_hint "python3 python3-venv" python3 python@3.12)"
  fi
  exit "$EXIT_USAGE"
}

# A marker is written last, so a half-finished set-up has none.
lock_fingerprint() {
  cat "$CHECKOUT/requirements-build.lock" "$CHECKOUT/requirements.lock" |
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}
# Whether it is that of these locks is noted once for a checkout: a question takes less time than the comparison.
is_ready() {
  local locks=("$CHECKOUT/requirements-build.lock" "$CHECKOUT/requirements.lock") noted="$VENV/.fits-${CHECKOUT//\//%}"
  [[ -x $VENV_PYTHON && -r $VENV/.lock-sha256 ]] || return
  [[ ! $noted -nt ${locks[0]} || ! $noted -nt ${locks[1]} || ! $noted -nt $VENV/.lock-sha256 ]] || return 0
  [[ $(<"$VENV/.lock-sha256") == "$(lock_fingerprint)" ]] || return
  { : >"$noted"; } 2>/dev/null || true
}

# Runs a command into the log.
step() {
  local title=$1 status=0
  shift
  printf '\n== %s\n' "$title" >>"$SETUP_LOG"
  say "$title ..."
  "$@" >>"$SETUP_LOG" 2>&1 || status=$?
  (( status == 0 )) && return
  tail -n 15 "$SETUP_LOG" | sed 's/^/  | /' >&2
  fail "$EXIT_SETUP_FAILED" "$title: failed. Full output: $SETUP_LOG"
}

# Two starts at once: the second waits and then finds everything made. Where flock is missing there is no such guard.
set_up() (
  mkdir -p "$(dirname "$VENV")"
  exec 9>"$VENV.setup.lock"
  if command -v flock >/dev/null && ! flock -n 9; then
    say "another start is setting up $VENV; waiting for it"
    flock 9
  fi
  ! is_ready || exit 0
  : >"$SETUP_LOG"
  command -v java >/dev/null || [[ -n ${JAVA_HOME:-} ]] || say "no Java found: what starts Spark will ask for one"
  # A finished environment of an older lock is brought up to date in place; anything else is made anew.
  if [[ ! -x $VENV_PYTHON || ! -e $VENV/.lock-sha256 ]]; then
    require_python
    # Only a directory that is ours, or empty, is ever cleared.
    [[ ! -e $VENV || -e $VENV/pyvenv.cfg || -e $VENV/.half-made || -z $(ls -A "$VENV") ]] ||
      fail "$EXIT_USAGE" "$VENV exists and is no virtual environment; set NAMESRV_VENV to another directory"
    mkdir -p "$VENV" && : >"$VENV/.half-made"
    step "making a virtual environment with $HOST_PYTHON" "$HOST_PYTHON" -m venv --clear "$VENV"
  fi
  rm -f "$VENV/.lock-sha256"
  # The build back end is locked as well, hence no build isolation: it would fetch one without a hash.
  step "installing Python packages (1 of 2: build)" "$VENV_PYTHON" -m pip install --disable-pip-version-check \
    --no-input --require-hashes --only-binary :all: -r "$CHECKOUT/requirements-build.lock"
  step "installing Python packages (2 of 2: about 1 GB, one to three minutes)" "$VENV_PYTHON" -m pip install \
    --disable-pip-version-check --no-input --require-hashes --no-build-isolation -r "$CHECKOUT/requirements.lock"
  rm -f "$VENV/.half-made"
  lock_fingerprint >"$VENV/.lock-sha256"
  say "environment ready after $SECONDS s"
)

export_environment() {
  local pyspark=("$VENV"/lib/python3.*/site-packages/pyspark)
  export VIRTUAL_ENV=$VENV NAMESRV_IVY=$IVY
  export PATH=$VENV/bin:$PATH
  export PYTHONPATH=$CHECKOUT
  export SPARK_HOME=${pyspark[0]} # never a Spark that happens to be installed: the JARs must fit the wheel
  export SPARK_CONF_DIR=$CHECKOUT/conf
  export PYSPARK_PYTHON=$VENV_PYTHON PYSPARK_DRIVER_PYTHON=$VENV_PYTHON
  export TZ=UTC # datetime values from collect() are in the process's zone
  export GX_ANALYTICS_ENABLED=false
  # What is allocated beside the JVM's heap: as in conf/spark-defaults.conf.
  export MALLOC_ARENA_MAX=${MALLOC_ARENA_MAX:-2} MALLOC_MMAP_THRESHOLD_=${MALLOC_MMAP_THRESHOLD_:-4194304}
  # Images of containers often set the last one: then each process would compile all modules anew.
  unset PYTHONHOME PYSPARK_DRIVER_PYTHON_OPTS PYTHONDONTWRITEBYTECODE
}

main() {
  # Before the first set-up, help is given by whatever Python there is.
  if ! is_ready && [[ " ${*:---help} " == *' --help '* || " $* " == *' -h '* ]]; then
    require_python
    cd "$CHECKOUT" # python -m looks into the current directory first
    PYTHONPATH=$CHECKOUT PYTHONDONTWRITEBYTECODE=1 exec "$HOST_PYTHON" -m jobs "${@:---help}"
  fi
  is_ready || set_up
  export_environment
  exec "$VENV_PYTHON" "$CHECKOUT/jobs/start/__main__.py" "$@"
}

main "$@"
