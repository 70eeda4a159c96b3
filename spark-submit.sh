#!/usr/bin/env bash
#
# The one entry: makes its own environment, then runs a job, the tests or the checks in it.
#
#   ./spark-submit.sh <job> [options]   options of spark-submit (--master, --conf, ...) may stand anywhere;
#                                       all others are the job's, and so is everything after --
#   ./spark-submit.sh test [options]    pytest; --quick: no JVM, nothing that takes longer than a second, few random examples
#   ./spark-submit.sh oracle [options]  compare the core with RocketMQ's own classes; --help tells its options
#   ./spark-submit.sh bench-core        the core's speed beside the real name server's; --rounds N
#   ./spark-submit.sh bench [options]   the night beside other ways to its answers; --help tells the ratios
#   ./spark-submit.sh lint              ruff, mypy, import-linter
#   ./spark-submit.sh coverage          what tests/core covers of namesrv_core; fails below the bars
#   ./spark-submit.sh mutate [module]   whether tests/core notices changes of namesrv_core, or of one module of it
#   ./spark-submit.sh fuzz [options]    coverage-guided fuzzing of the decoders: --inputs N, --target NAME, --help
#   ./spark-submit.sh setup             make the environment, with an archive of classes for a quicker start, and stop
#   ./spark-submit.sh pack [options]    pack the environment for the machines of a cluster: --output FILE
#   ./spark-submit.sh ask QUESTION ...   ask the published tables, without Java; --help tells the questions
#   ./spark-submit.sh shell-env         export lines for a developer's shell: eval "$(./spark-submit.sh shell-env)"
#   ./spark-submit.sh --help            the jobs
#
# Needs Python 3.10 to 3.13 and Java 17 or newer, nothing else. Network is needed by the first start only.
# Exit codes: those of the job; 2 when Python or Java is missing or an option is wrong, 1 when set-up fails.
#
#   NAMESRV_PYTHON    the Python to build the environment with    (default: the newest that fits)
#   NAMESRV_VENV      where the environment lives                 (default: .venv in the checkout)
#   NAMESRV_IVY       where JARs and an archive of classes lie     (default: .ivy2 in the checkout)
#   NAMESRV_DRY_RUN   1: print the command instead of running it, one argument a line

set -euo pipefail

readonly EXIT_SETUP_FAILED=1 EXIT_USAGE=2
readonly OLDEST_JAVA=17

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
  cd -P "$(dirname "$source")" && pwd
}

# Every path is made absolute: commands run in the caller's directory, not in the checkout.
absolute() { case $1 in /*) printf '%s' "$1" ;; *) printf '%s/%s' "$PWD" "$1" ;; esac }

CHECKOUT=$(checkout_dir)
VENV=$(absolute "${NAMESRV_VENV:-$CHECKOUT/.venv}")
IVY=$(absolute "${NAMESRV_IVY:-$CHECKOUT/.ivy2}")
VENV_PYTHON=$VENV/bin/python
SETUP_LOG=$VENV.setup.log
readonly CHECKOUT VENV IVY VENV_PYTHON SETUP_LOG

# ---------------------------------------------------------------------------------------------------------------
# What the machine must have

# One command that helps, for the package manager at hand.
install_hint() {
  local apt=$1 dnf=$2 brew=$3 sudo=''
  [[ $(id -u) == 0 ]] || sudo='sudo '
  if command -v apt-get >/dev/null; then
    printf '%sapt-get install -y %s' "$sudo" "$apt"
  elif command -v dnf >/dev/null; then
    printf '%sdnf install -y %s' "$sudo" "$dnf"
  elif command -v brew >/dev/null; then
    printf 'brew install %s' "$brew"
  else
    printf 'apt-get install -y %s' "$apt"
  fi
}

# Sets JAVA_VERSION, all that the command says of itself, and JAVA_MAJOR, 0 when it is no working Java. Old ones call
# themselves 1.8.
JAVA_VERSION='' JAVA_MAJOR=0
ask_java() {
  JAVA_MAJOR=0
  JAVA_VERSION=$("$1" -version 2>&1) || return 0
  [[ ! $JAVA_VERSION =~ version\ \"(1\.)?([0-9]+) ]] || JAVA_MAJOR=${BASH_REMATCH[2]}
}

# Debian releases do not all carry the same Java.
debian_java() {
  local version
  for version in 17 21 25; do
    if apt-cache show "openjdk-$version-jre-headless" >/dev/null 2>&1; then
      printf 'openjdk-%s-jre-headless' "$version"
      return
    fi
  done
  printf 'openjdk-%s-jre-headless' "$OLDEST_JAVA"
}

# Spark takes JAVA_HOME before PATH, so an unfit JAVA_HOME is dropped when PATH has a fit Java.
require_java() {
  local found='none found'
  if [[ -n ${JAVA_HOME:-} ]]; then
    ask_java "$JAVA_HOME/bin/java"
    (( JAVA_MAJOR >= OLDEST_JAVA )) && return
    found="JAVA_HOME=$JAVA_HOME has no working Java"
    (( JAVA_MAJOR == 0 )) || found="JAVA_HOME=$JAVA_HOME is Java $JAVA_MAJOR"
  fi
  if command -v java >/dev/null; then
    ask_java java
    if (( JAVA_MAJOR >= OLDEST_JAVA )); then
      unset JAVA_HOME
      return
    fi
    (( JAVA_MAJOR == 0 )) || found="java on PATH is Java $JAVA_MAJOR"
  fi
  say "Java $OLDEST_JAVA or newer is needed ($found). Install it with:"
  say "  $(install_hint "$(debian_java)" java-21-openjdk-headless openjdk@21)"
  exit "$EXIT_USAGE"
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

# ---------------------------------------------------------------------------------------------------------------
# The environment: Python packages from the lock, Delta's JARs by Spark's own Ivy

fingerprint() {
  if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

python_fingerprint() { cat "$CHECKOUT/requirements-build.lock" "$CHECKOUT/requirements.lock" | fingerprint; }
jars_fingerprint() { grep -E '^spark\.jars\.' "$CHECKOUT/conf/spark-defaults.conf" | fingerprint; }

# A marker is written last, so a half-finished set-up has none.
marker_is() { [[ -r $1 && $(<"$1") == "$2" ]]; }
python_is_ready() { [[ -x $VENV_PYTHON ]] && marker_is "$VENV/.lock-sha256" "$(python_fingerprint)"; }
jars_are_ready() { marker_is "$IVY/.packages-sha256" "$(jars_fingerprint)" && [[ -n $(delta_jars ,) ]]; }

# Runs a command into the log. On a terminal a line with running seconds shows that it lives.
step() {
  local title=$1 ticker='' status=0
  shift
  printf '\n== %s\n' "$title" >>"$SETUP_LOG"
  if [[ -t 2 && -z ${CI:-} ]]; then
    (
      while :; do
        printf '\r\033[Knamesrv-history: %s ... %ds' "$title" "$SECONDS" >&2
        sleep 1
      done
    ) &
    ticker=$!
  else
    say "$title ..."
  fi
  "$@" >>"$SETUP_LOG" 2>&1 || status=$?
  if [[ -n $ticker ]]; then
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    printf '\r\033[K' >&2
  fi
  if (( status != 0 )); then
    tail -n 15 "$SETUP_LOG" | sed 's/^/  | /' >&2
    fail "$EXIT_SETUP_FAILED" "$title: failed. Full output: $SETUP_LOG"
  fi
}

# Only a directory that is ours, or empty, is ever cleared.
require_own_directory() {
  [[ ! -e $VENV || -e $VENV/pyvenv.cfg || -e $VENV/.half-made || -z $(ls -A "$VENV") ]] ||
    fail "$EXIT_USAGE" "$VENV exists and is no virtual environment; set NAMESRV_VENV to another directory"
}

install_python_packages() {
  # A finished environment of an older lock is brought up to date in place; anything else is made anew.
  if [[ ! -x $VENV_PYTHON || ! -e $VENV/.lock-sha256 ]]; then
    require_python
    require_own_directory
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
  python_fingerprint >"$VENV/.lock-sha256"
}

# Spark resolves spark.jars.packages before it starts a script: an empty script is enough to fill the Ivy directory.
resolve_jars() {
  require_java
  mkdir -p "$IVY"
  rm -rf "$IVY/jars" "$IVY/.packages-sha256"
  : >"$IVY/resolve.py"
  step "fetching the Delta Lake JARs" "$SPARK_HOME/bin/spark-submit" --master 'local[1]' --driver-memory 512m \
    --conf "spark.jars.ivy=$IVY" "$@" "$IVY/resolve.py"
  jars_fingerprint >"$IVY/.packages-sha256"
}

# Two starts at once: the second waits and then finds everything made. Where flock is missing there is no such guard.
lock_setup() {
  mkdir -p "$(dirname "$VENV")"
  exec 9>"$VENV.setup.lock"
  command -v flock >/dev/null || return 0
  flock -n 9 || { say "another start is setting up $VENV; waiting for it"; flock 9; }
}

ensure_environment() {
  { python_is_ready && jars_are_ready; } || set_up "$@"
  export_environment # once all is there: it names the JARs
}

set_up() {
  require_java # said now rather than after a minute of installing
  local began=$SECONDS
  lock_setup
  : >"$SETUP_LOG"
  python_is_ready || install_python_packages
  jars_are_ready || (export_environment; resolve_jars "$@")
  exec 9>&- # or the job would hold the lock for as long as it runs
  say "environment ready after $((SECONDS - began)) s"
}

# ---------------------------------------------------------------------------------------------------------------
# An archive of the classes that a night and its questions load: with it a JVM on this machine starts sooner

# A JVM takes it only with the class path and the version with which it was made, and with no folder there that has files. So
# conf/ is left off and its files are named; Delta's JARs are on it, which otherwise a loader of Spark's own would add.
readonly CLASSES=$IVY/classes.jsa NO_CONF=$IVY/no-conf
readonly OURS_IN_CONF='cluster.conf.example log4j2.properties namesrv-history.toml spark-defaults.conf'
# Why an archive is refused would be told on standard output.
readonly QUIET_JVM=-Xlog:disable

# The size is part of it, because a JVM does not survive half an archive.
archive_key() {
  {
    printf '%s\n' "$JAVA_VERSION" "$SPARK_HOME" "$(python_fingerprint)" "$(jars_fingerprint)"
    if [[ -s $CLASSES ]]; then wc -c <"$CLASSES"; fi
  } | fingerprint
}

# Also true when none could be made: that is not tried again before something changes.
archive_is_settled() { marker_is "$CLASSES.key" "$(archive_key)"; }
archive_fits() { [[ -s $CLASSES ]] && archive_is_settled; }

# Options of spark-submit with which the class path is the archive's, and what else it takes; $1 is an option of the JVM.
ARCHIVE_OPTIONS=(--conf spark.jars.packages= --properties-file "$CHECKOUT/conf/spark-defaults.conf")
export_class_path() {
  export SPARK_CONF_DIR=$NO_CONF
  SPARK_DIST_CLASSPATH=$(delta_jars :)
  SPARK_SUBMIT_OPTS="$(quoted "$1" "-Dlog4j2.configurationFile=$CHECKOUT/conf/log4j2.properties") ${SPARK_SUBMIT_OPTS-}"
  PYSPARK_SUBMIT_ARGS="$(quoted "${ARCHIVE_OPTIONS[@]}") pyspark-shell"
  export SPARK_DIST_CLASSPATH SPARK_SUBMIT_OPTS PYSPARK_SUBMIT_ARGS
}

use_archive() {
  export_class_path "-XX:SharedArchiveFile=$CLASSES"
  SPARK_SUBMIT_OPTS="$QUIET_JVM $SPARK_SUBMIT_OPTS"
}

# What the demo loads is recorded. Its JVM outlives its Python for as long as it writes: then `cat` ends.
archive_classes() (
  [[ -w $IVY ]] || exit 0 # somebody else's environment
  exec 9>"$CLASSES.lock"
  ! command -v flock >/dev/null || flock 9
  ! archive_is_settled || exit 0
  making=$CLASSES.making
  rm -rf "$making" "$CLASSES"
  mkdir -p "$making" "$NO_CONF"
  cd "$making"
  stay_on_loopback
  ignore_caller_directory
  ARCHIVE_OPTIONS+=(--driver-memory 1g)
  export_class_path "-XX:ArchiveClassesAtExit=$making/classes.jsa"
  if "$VENV_PYTHON" "$CHECKOUT/jobs/__main__.py" demo --warehouse "$making/warehouse" 2>&1 | cat; then
    [[ ! -e $making/classes.jsa ]] || mv "$making/classes.jsa" "$CLASSES"
  fi
  archive_key >"$CLASSES.key"
  cd "$IVY" && rm -rf "$making"
)

# Who asks for an environment, or starts many JVMs, waits for it; a job runs without.
ensure_archive() { archive_is_settled || step "archiving Spark's classes" archive_classes; }

# ---------------------------------------------------------------------------------------------------------------
# Running

# Their paths, with $1 between them.
delta_jars() {
  local jars=("$IVY"/jars/*.jar)
  [[ -e ${jars[0]} ]] || return 0
  (IFS=$1; printf '%s' "${jars[*]}")
}

# The launcher of plain Python sessions (tests, notebooks) reads its arguments from this variable, split like a shell.
plain_python_submit_args() {
  printf -- "--conf spark.jars.packages= --jars '%s' pyspark-shell" "$(delta_jars ,)"
}

export_environment() {
  local pyspark=("$VENV"/lib/python3.*/site-packages/pyspark)
  export VIRTUAL_ENV=$VENV
  export PATH=$VENV/bin:$PATH
  export PYTHONPATH=$CHECKOUT
  export SPARK_HOME=${pyspark[0]} # never a Spark that happens to be installed: the JARs must fit the wheel
  export SPARK_CONF_DIR=$CHECKOUT/conf
  export PYSPARK_PYTHON=$VENV_PYTHON PYSPARK_DRIVER_PYTHON=$VENV_PYTHON
  export NAMESRV_IVY=$IVY # tests fetch JARs into it
  export TZ=UTC # datetime values from collect() are in the process's zone
  export GX_ANALYTICS_ENABLED=false
  # What is allocated beside the JVM's heap: as in conf/spark-defaults.conf.
  export MALLOC_ARENA_MAX=${MALLOC_ARENA_MAX:-2} MALLOC_MMAP_THRESHOLD_=${MALLOC_MMAP_THRESHOLD_:-4194304}
  PYSPARK_SUBMIT_ARGS=$(plain_python_submit_args)
  export PYSPARK_SUBMIT_ARGS
  # Images of containers often set the last one: then each process would compile all modules anew.
  unset PYTHONHOME PYSPARK_DRIVER_PYTHON_OPTS PYTHONDONTWRITEBYTECODE
}

readonly EXPORTED=(VIRTUAL_ENV PATH PYTHONPATH SPARK_HOME SPARK_CONF_DIR SPARK_LOCAL_IP PYSPARK_PYTHON
  PYSPARK_DRIVER_PYTHON PYSPARK_SUBMIT_ARGS NAMESRV_IVY TZ GX_ANALYTICS_ENABLED
  MALLOC_ARENA_MAX MALLOC_MMAP_THRESHOLD_)

# One machine needs no address of the network, and a host name that does not resolve would stop the start.
stay_on_loopback() { export SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}; }

print_shell_env() {
  local name
  for name in "${EXPORTED[@]}"; do printf 'export %s=%q\n' "$name" "${!name-}"; done
}

is_dry_run() { [[ ${NAMESRV_DRY_RUN:-} == 1 ]]; }

run() {
  if is_dry_run; then printf '%s\n' "$@"; else exec "$@"; fi
}

takes_value() {
  case $1 in
    --master | --deploy-mode | --class | --name | --conf | -c | --properties-file | --remote | \
      --jars | --packages | --exclude-packages | --repositories | --py-files | --files | --archives | \
      --driver-memory | --driver-java-options | --driver-library-path | --driver-class-path | --driver-cores | \
      --executor-memory | --executor-cores | --total-executor-cores | --num-executors | \
      --queue | --principal | --keytab | --proxy-user) return 0 ;;
    *) return 1 ;;
  esac
}

is_flag() {
  case $1 in
    --verbose | --supervise | --load-spark-defaults) return 0 ;;
    *) return 1 ;;
  esac
}

# Splits the command line into SPARK_ARGS and JOB_ARGS. What the rest of the script must know, or add to, is kept apart.
SPARK_ARGS=() JOB_ARGS=() MASTER='' PROPERTIES_FILE='' WANTS_HELP=0
USER_JARS='' USER_PY_FILES='' USER_PACKAGES='' USER_ARCHIVES='' USER_PYTHON='' DEPLOY_MODE=''
split_arguments() {
  local option value
  while (( $# > 0 )); do
    option=$1
    shift
    if [[ $option == -- ]]; then
      JOB_ARGS+=("$@")
      return
    elif [[ $option == -h || $option == --help ]]; then
      WANTS_HELP=1
      JOB_ARGS+=("$option")
    elif is_flag "$option"; then
      SPARK_ARGS+=("$option")
    elif takes_value "${option%%=*}"; then
      if [[ $option == *=* ]]; then
        value=${option#*=} option=${option%%=*}
      else
        (( $# > 0 )) || fail "$EXIT_USAGE" "$option needs a value"
        value=$1
        shift
      fi
      take_spark_option "$option" "$value"
    else
      JOB_ARGS+=("$option")
    fi
  done
}

# What Spark would refuse after seconds, with a page of Java, is refused now.
judge_spark_option() {
  local option=$1 value=$2 expected='' file files=()
  case $option in
    --master | spark.master)
      [[ $value =~ ^(local|local\[[0-9*]+(,\ *[0-9]+)?\]|local-cluster\[[0-9,\ ]+\]|yarn|(spark|k8s)://.+)$ ]] ||
        expected='local, local[N], spark://host:port, yarn or k8s://https://host:port'
      ;;
    --deploy-mode) [[ $value == client || $value == cluster ]] || expected='client or cluster' ;;
    --driver-memory | spark.driver.memory) # it is the JVM that reads it
      [[ $value =~ ^[1-9][0-9]*[kKmMgGtT]$ ]] || expected='a size such as 4g or 512m'
      ;;
    --executor-memory | spark.executor.memory)
      [[ $value =~ ^[1-9][0-9]*([kKmMgGtTpP][bB]?)?$ ]] || expected='a size such as 4g or 512m'
      ;;
    --driver-cores | --executor-cores | --total-executor-cores | --num-executors)
      [[ $value =~ ^[1-9][0-9]*$ ]] || expected='a number'
      ;;
    --conf | -c)
      [[ $value == *?=* ]] || expected='name=value'
      judge_spark_option "${value%%=*}" "${value#*=}"
      ;;
    --properties-file | --jars | --py-files | --files | --archives)
      IFS=, read -ra files <<<"$value"
      for file in "${files[@]}"; do
        file=${file%%#*}
        [[ $file == *:* || $file == *[*?[]* || -e $file ]] || fail "$EXIT_USAGE" "$option $file: no such file"
      done
      ;;
  esac
  [[ -z $expected ]] || fail "$EXIT_USAGE" "$option $value: expected $expected"
}

take_spark_option() {
  local option=$1 value=$2
  judge_spark_option "$option" "$value"
  case $option in
    --jars) USER_JARS=$value && return ;;
    --py-files) USER_PY_FILES=$value && return ;;
    --archives) USER_ARCHIVES=$value && return ;;
    --packages) USER_PACKAGES=$value ;;
    --properties-file) PROPERTIES_FILE=$value ;;
    --master) MASTER=$value ;;
    --deploy-mode) DEPLOY_MODE=$value ;;
    --conf | -c)
      case $value in
        spark.master=*) MASTER=${MASTER:-${value#*=}} ;;
        spark.pyspark.python=*) USER_PYTHON=${value#*=} ;;
      esac
      ;;
  esac
  SPARK_ARGS+=("$option" "$value")
}

is_local_master() {
  local master=$MASTER
  if [[ -z $master && -r $PROPERTIES_FILE ]]; then
    master=$(sed -n -E 's/^[[:space:]]*spark\.master[[:space:]=:]+([^[:space:]]+).*/\1/p' "$PROPERTIES_FILE" | tail -n 1)
  fi
  [[ -z $master || $master == local || $master == local\[* ]]
}

# No executors elsewhere, and nothing of the user's on the class path; files in conf/ (hive-site.xml) are meant to be there.
is_plain() {
  [[ -z $USER_JARS$USER_PACKAGES$PROPERTIES_FILE && $(cd "$CHECKOUT/conf" && echo *) == "$OURS_IN_CONF" ]] &&
    is_local_master
}

# Executors elsewhere have no checkout: the packages travel as one zip, with their .sql and other data files.
zip_packages() {
  (
    cd "$CHECKOUT"
    find namesrv_core namesrv_wire namesrv_day schemas jobs -type f ! -name '*.pyc' ! -path '*/.*' -print0 | LC_ALL=C sort -z |
      "$VENV_PYTHON" -c '
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as archive:
    for name in filter(None, sys.stdin.read().split("\0")):
        archive.write(name)
' "$1"
  )
}

# Executors elsewhere have no environment either. It is packed once for each lock, unless the user brings one: an archive
# that is unpacked as `environment`, or a Python that is installed there.
ENVIRONMENT=environment
ENVIRONMENT_ARCHIVE=$VENV.packed.tar.gz
readonly ENVIRONMENT ENVIRONMENT_ARCHIVE

pack_environment() {
  marker_is "$ENVIRONMENT_ARCHIVE.lock-sha256" "$(python_fingerprint)" && [[ -s $ENVIRONMENT_ARCHIVE ]] && return
  : >"$SETUP_LOG"
  step 'packing the environment for executors' "$VENV_PYTHON" "$CHECKOUT/jobs/__main__.py" pack \
    --output "$ENVIRONMENT_ARCHIVE"
  python_fingerprint >"$ENVIRONMENT_ARCHIVE.lock-sha256"
}

# Sets ARCHIVES, and EXECUTOR_PYTHON, a path in the directory where an executor runs.
ARCHIVES='' EXECUTOR_PYTHON=''
choose_executor_python() {
  ARCHIVES=$USER_ARCHIVES
  [[ -z $USER_PYTHON ]] || return 0
  EXECUTOR_PYTHON=./$ENVIRONMENT/bin/python
  if [[ ,$USER_ARCHIVES, != *"#$ENVIRONMENT,"* ]]; then
    is_dry_run || pack_environment
    ARCHIVES=$ENVIRONMENT_ARCHIVE#$ENVIRONMENT${USER_ARCHIVES:+,}$USER_ARCHIVES
  fi
}

# Spark's Python workers look into the caller's directory first, where a folder named schemas or jobs may be anybody's.
# Python before 3.11 does not know this variable and keeps looking there.
ignore_caller_directory() { export PYTHONSAFEPATH=1; }

# Python starts first and Java from it, beside other work: arguments are judged before there is a JVM, and standard input is
# the job's. Where the cluster is to run the driver itself, spark-submit has to take it there.
submit() {
  local options=() jars py_files=$USER_PY_FILES archive='' job=("$CHECKOUT/jobs/__main__.py" "${JOB_ARGS[@]}")
  if is_plain && archive_fits; then
    use_archive
    options+=("${ARCHIVE_OPTIONS[@]}")
  else
    jars=$(delta_jars ,)
    # The resolved JARs are named directly: asking Ivy again takes two seconds and prints a page.
    [[ -n $USER_PACKAGES || -z $jars ]] || options+=(--conf spark.jars.packages=)
    jars=$jars${jars:+${USER_JARS:+,}}$USER_JARS
    [[ -z $jars ]] || options+=(--jars "$jars")
  fi
  options+=(--conf "spark.jars.ivy=$IVY")
  # A properties file adds to ours; without this option it would replace it, Delta's settings included.
  [[ -z $PROPERTIES_FILE ]] || options+=(--load-spark-defaults)
  if is_local_master; then
    stay_on_loopback
    ignore_caller_directory
  else
    archive=$(mktemp -d "${TMPDIR:-/tmp}/namesrv-history.XXXXXX")/packages.zip
    is_dry_run || zip_packages "$archive"
    py_files=$archive${USER_PY_FILES:+,}$USER_PY_FILES
    choose_executor_python
    export PYSPARK_PYTHON=${EXECUTOR_PYTHON:-$USER_PYTHON}
    [[ -z $EXECUTOR_PYTHON ]] || options+=(--conf "spark.pyspark.python=$EXECUTOR_PYTHON")
    options+=(--conf "spark.pyspark.driver.python=$VENV_PYTHON")
  fi
  [[ -z ${ARCHIVES:=$USER_ARCHIVES} ]] || options+=(--archives "$ARCHIVES")
  [[ -z $py_files ]] || options+=(--py-files "$py_files")
  options+=("${SPARK_ARGS[@]}")
  local command=("$VENV_PYTHON" "${job[@]}")
  if [[ $DEPLOY_MODE == cluster ]]; then
    command=("$SPARK_HOME/bin/spark-submit" "${options[@]}" "${job[@]}")
  else
    PYSPARK_SUBMIT_ARGS="$(quoted "${options[@]}") pyspark-shell"
    ! is_dry_run || printf '%s\n' PYSPARK_SUBMIT_ARGS "${options[@]}"
  fi
  if [[ -z $archive ]]; then run "${command[@]}"; else run_then_remove "$(dirname "$archive")" "${command[@]}"; fi
}

# One line that a shell, and PySpark, would split into these arguments again.
quoted() {
  local argument
  for argument in "$@"; do printf "'%s' " "${argument//\'/\'\\\'\'}"; done
}

# As run, but the shell stays to clean up; it hands a signal on, which a shell waiting in the foreground would not.
run_then_remove() {
  local directory=$1 child status=0
  shift
  if is_dry_run; then
    printf '%s\n' "$@"
    rm -rf "$directory"
    return
  fi
  "$@" <&0 &
  child=$!
  trap 'kill -TERM "$child" 2>/dev/null' INT TERM
  wait "$child" || status=$?
  # A trapped signal ends the first wait early; the second one has the status of the child.
  if kill -0 "$child" 2>/dev/null; then
    status=0
    wait "$child" || status=$?
  fi
  rm -rf "$directory"
  exit "$status"
}

# Help needs no JVM, and before the first set-up no environment either.
show_help() {
  cd "$CHECKOUT" # python -m looks into the current directory first
  if [[ -x $VENV_PYTHON ]] && python_is_ready; then
    export_environment
    run "$VENV_PYTHON" -m jobs "$@"
  else
    require_python
    # Works as long as the help text needs the standard library only; else the environment has to come first.
    PYTHONPATH=$CHECKOUT PYTHONDONTWRITEBYTECODE=1 "$HOST_PYTHON" -m jobs "$@" 2>/dev/null && return
    ensure_environment
    run "$VENV_PYTHON" -m jobs "$@"
  fi
}

# Types are judged anew each time: a cache of mypy's once hid an error that a fresh clone had.
lint() {
  local status=0
  cd "$CHECKOUT"
  "$VENV_PYTHON" -m ruff check . || status=1
  "$VENV_PYTHON" -m ruff format --check . || status=1
  "$VENV_PYTHON" -m mypy --cache-dir=/dev/null || status=1
  "$VENV_PYTHON" "$VENV/bin/lint-imports" --no-logo || status=1
  exit "$status"
}

# Branches and statements have bars of their own, which coverage's one percentage cannot express.
coverage() {
  cd "$CHECKOUT"
  "$VENV_PYTHON" -m coverage run -m pytest -q tests/core
  "$VENV_PYTHON" -m coverage report
  "$VENV_PYTHON" -m coverage json -q -o - | "$VENV_PYTHON" tests/core/coverage_bars.py
}

# mutmut remembers verdicts in mutants/ and does not see that a test has changed; asking for a module asks anew.
mutate() {
  cd "$CHECKOUT"
  if (( $# > 0 )); then
    "$VENV_PYTHON" -m mutmut run "namesrv_core.$1.*"
  else
    rm -rf mutants
    "$VENV_PYTHON" -m mutmut run
  fi
  "$VENV_PYTHON" tests/core/mutants_by_module.py
}

main() {
  case ${1-} in
    '' | help)
      show_help --help
      ;;
    setup)
      require_java
      ensure_environment "${@:2}"
      ensure_archive
      ;;
    shell-env)
      ensure_environment
      stay_on_loopback
      print_shell_env
      ;;
    lint)
      ensure_environment
      lint
      ;;
    coverage | mutate)
      ensure_environment
      "$@"
      ;;
    test)
      [[ ${2-} == --quick ]] || require_java
      ensure_environment
      if [[ ${2-} != --quick ]]; then
        ensure_archive
        ! is_plain || ! archive_fits || use_archive
      fi
      stay_on_loopback
      cd "$CHECKOUT"
      # A process for each core and one that works while others wait, four at most; what each is given in one piece, and
      # in which order, says tests/conftest.py.
      local spread=(--dist=loadfile --no-loadscope-reorder) processes
      processes=$("$VENV_PYTHON" -c 'import os; print(min(4, os.cpu_count() + 1))')
      if [[ ${2-} == --quick ]]; then
        run "$VENV_PYTHON" -m pytest --numprocesses=auto --maxprocesses=4 "${spread[@]}" --hypothesis-profile=quick \
          -m 'not slow and not jvm' "${@:3}"
      elif (($# > 1)); then
        run "$VENV_PYTHON" -m pytest "${@:2}"
      else
        run "$VENV_PYTHON" -m pytest --numprocesses="$processes" "${spread[@]}"
      fi
      ;;
    oracle)
      require_java
      ensure_environment
      cd "$CHECKOUT"
      run "$VENV_PYTHON" -m tests.oracle "${@:2}"
      ;;
    bench-core)
      require_java
      ensure_environment
      cd "$CHECKOUT"
      run "$VENV_PYTHON" -m benchmarks.core "${@:2}"
      ;;
    bench)
      require_java
      ensure_environment
      ensure_archive
      stay_on_loopback
      cd "$CHECKOUT"
      run "$VENV_PYTHON" -m benchmarks "${@:2}"
      ;;
    ask | pack | trace)
      if is_dry_run; then export_environment; else ensure_environment; fi
      run "$VENV_PYTHON" "$CHECKOUT/jobs/__main__.py" "$@"
      ;;
    fuzz)
      ensure_environment
      cd "$CHECKOUT"
      run "$VENV_PYTHON" -m tests.wire.fuzz "${@:2}"
      ;;
    *)
      split_arguments "$@"
      if (( WANTS_HELP )); then show_help "${JOB_ARGS[@]}"; return; fi
      (( ${#JOB_ARGS[@]} > 0 )) || fail "$EXIT_USAGE" "no job named; ./spark-submit.sh --help lists them"
      require_java
      if is_dry_run; then export_environment; else ensure_environment; fi
      submit
      ;;
  esac
}

main "$@"
