"""Java, Delta's JARs, and a class data archive of the classes that a run and its questions load.

A JVM takes an archive only with the class path and the version with which it was made, and with no folder there that has files.
So conf/ is left off and its files are named; Delta's JARs are on it, which otherwise a loader of Spark's own would add.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from jobs.errors import JobError, UsageError
from jobs.session import CommandLine

CHECKOUT = Path(__file__).resolve().parents[2]
CONF = CHECKOUT / "conf"
OLDEST = 17
# The JVM would print on standard output why it refuses an archive.
QUIET = "-Xlog:disable"
_OURS_IN_CONF = frozenset({"cluster.conf.example", "log4j2.properties", "namesrv-history.toml", "spark-defaults.conf"})


class Java:
    """The Java that Spark starts, and the contents of the folder of JARs (`NAMESRV_IVY`)."""

    def __init__(self) -> None:
        """Find it. Spark takes JAVA_HOME before PATH, so an unfit JAVA_HOME is dropped when PATH has a fit Java.

        Raises UsageError, with the command that installs one, if there is no Spark, or no Java of version 17 or later.
        """
        if not os.environ["SPARK_HOME"]:
            raise UsageError(
                "Spark is not installed: pip install 'namesrv-history[spark]'; `demo` and `nightly` work without it too "
                "(--in-process), and `ask` answers most of what `sql` does"
            )
        self.ivy, found = Path(os.environ["NAMESRV_IVY"]), "none found"
        self.archive = self.ivy / "classes.jsa"
        home = os.environ.get("JAVA_HOME")
        for where, command in (("JAVA_HOME", f"{home}/bin/java" if home else None), ("PATH", shutil.which("java"))):
            if command is None:
                continue
            printed, major = _version_of(command)
            if major >= OLDEST:
                if where == "PATH":
                    os.environ.pop("JAVA_HOME", None)
                self.version = printed
                return
            name = f"JAVA_HOME={home}" if where == "JAVA_HOME" else "java on PATH"
            found = f"{name} is Java {major}" if major else f"{name} has no working Java"
        raise UsageError(f"Java {OLDEST} or newer is needed ({found}). Install it with: {_install_hint()}")

    @property
    def jars(self) -> list[str]:
        """Return the paths of Delta's JARs."""
        return sorted(str(path) for path in self.ivy.glob("jars/*.jar"))

    def ensure_jars(self, options: Sequence[str] = ()) -> None:
        """Have Spark's own Ivy fetch Delta's JARs unless they are there. `options`: of spark-submit (--repositories, ...)."""
        settings = (CONF / "spark-defaults.conf").read_text(encoding="utf-8")
        wanted = _digest(re.findall(r"^spark\.jars\..*", settings, re.MULTILINE))
        marker = self.ivy / ".packages-sha256"
        with _locked(self.ivy / "jars.lock"):
            if _says(marker, wanted) and self.jars:
                return
            shutil.rmtree(self.ivy / "jars", ignore_errors=True)
            marker.unlink(missing_ok=True)
            script = self.ivy / "resolve.py"  # Spark resolves spark.jars.packages before it starts a script
            script.touch()
            command = [
                f"{os.environ['SPARK_HOME']}/bin/spark-submit",
                "--master",
                "local[1]",
                "--driver-memory",
                "512m",
            ]
            command += ["--conf", f"spark.jars.ivy={self.ivy}", *options, str(script)]
            _step("fetching the Delta Lake JARs", command, self.ivy / "resolve.log")
            marker.write_text(wanted, encoding="utf-8")

    # -- the archive of classes --------------------------------------------------------------------------------------

    def _key(self) -> str:
        # The size is part of the key, because half an archive crashes a JVM.
        size = self.archive.stat().st_size if self.archive.exists() else 0
        files = (CHECKOUT / name for name in ("requirements.lock", "conf/spark-defaults.conf"))
        locks = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
        return _digest([self.version, os.environ["SPARK_HOME"], str(size), *locks])

    def _is_settled(self) -> bool:
        """Return whether an archive was made, or could not be made: that is tried again only when something changes."""
        return _says(self.archive.with_suffix(".jsa.key"), self._key())

    def fits_archive(self, line: CommandLine) -> bool:
        """Return whether there is an archive, no executors elsewhere, and nothing of the user's on the class path."""
        theirs = {"--jars", "--packages", "--properties-file"}.intersection(line.given)
        is_ours = {path.name for path in CONF.iterdir()} == _OURS_IN_CONF
        is_plain = not theirs and is_ours and line.is_local
        return is_plain and self.archive.exists() and self.archive.stat().st_size > 0 and self._is_settled()

    def use_archive(self, option: str = "") -> list[str]:
        """Set the class path that the archive was made with, and return the options of spark-submit that use it."""
        no_conf = self.ivy / "no-conf"
        no_conf.mkdir(exist_ok=True)
        option = option or f"-XX:SharedArchiveFile={self.archive}"
        logging = f"-Dlog4j2.configurationFile={CONF}/log4j2.properties"
        os.environ["SPARK_CONF_DIR"], os.environ["SPARK_DIST_CLASSPATH"] = str(no_conf), ":".join(self.jars)
        os.environ["SPARK_SUBMIT_OPTS"] = f"{QUIET} '{option}' '{logging}' {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
        return ["--conf", "spark.jars.packages=", "--properties-file", f"{CONF}/spark-defaults.conf"]

    def ensure_archive(self) -> None:
        """Archive the classes that the demo loads, unless that was done or tried. A read-only folder is left as it is."""
        if self._is_settled() or not os.access(self.ivy, os.W_OK):
            return
        with _locked(self.ivy / "classes.jsa.lock"):
            if self._is_settled():
                return
            making = self.ivy / "classes.jsa.making"
            shutil.rmtree(making, ignore_errors=True)
            self.archive.unlink(missing_ok=True)
            making.mkdir()
            before = dict(os.environ)
            options = self.use_archive(f"-XX:ArchiveClassesAtExit={making}/classes.jsa")
            os.environ["PYSPARK_SUBMIT_ARGS"] = f"{shlex.join([*options, '--driver-memory', '1g'])} pyspark-shell"
            command = [sys.executable, str(CHECKOUT / "jobs" / "__main__.py"), "demo", "--warehouse", str(making / "w")]
            with contextlib.suppress(JobError):
                _step("archiving Spark's classes", command, self.ivy / "classes.log")
            os.environ.clear()
            os.environ.update(before)
            if (making / "classes.jsa").exists():
                (making / "classes.jsa").replace(self.archive)
            self.archive.with_suffix(".jsa.key").write_text(self._key(), encoding="utf-8")
            shutil.rmtree(making)


def plain_python() -> None:
    """Set the options of sessions in plain Python (tests, notebooks); the launcher splits them like a shell."""
    stay_on_loopback()
    jars = ",".join(str(path) for path in sorted(Path(os.environ["NAMESRV_IVY"]).glob("jars/*.jar")))
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"{shlex.join(['--conf', 'spark.jars.packages=', '--jars', jars])} pyspark-shell"
    )


def stay_on_loopback() -> None:
    """Bind Spark to the loopback address: a host name that does not resolve would prevent the start."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def set_up(options: Sequence[str]) -> None:
    """Fetch Delta's JARs, and archive classes, if there is a Java."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        sys.stderr.write("namesrv-history: without Java: ready for all that needs no Spark\n")
        return
    java = Java()
    java.ensure_jars(options)
    stay_on_loopback()
    java.ensure_archive()


def options_of(line: CommandLine, java: Java) -> list[str]:
    """Return the options for spark-submit besides the user's."""
    if java.fits_archive(line):
        options = java.use_archive()
    else:
        # The resolved JARs are named directly: asking Ivy again takes two seconds and prints a page.
        options = [] if "--packages" in line.given or not java.jars else ["--conf", "spark.jars.packages="]
        if jars := [*java.jars, *filter(None, [line.given.get("--jars")])]:
            options += ["--jars", ",".join(jars)]
    options += ["--conf", f"spark.jars.ivy={java.ivy}"]
    if "--properties-file" in line.given:
        options.append("--load-spark-defaults")  # adds the defaults to our options; otherwise the file replaces them
    if line.is_local:
        stay_on_loopback()
        theirs = [option for option in ("--archives", "--py-files") if option in line.given]
        return [*options, *(text for option in theirs for text in (option, line.given[option]))]
    from jobs.start.pack import options_for_executors, zip_packages  # noqa: PLC0415  most jobs stay here

    folder = Path(tempfile.mkdtemp(prefix="namesrv-history."))

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  a handler of signals has both
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    # It is removed when this process ends, also by a signal.
    signal.signal(signal.SIGTERM, stop)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    zip_packages(CHECKOUT, folder / "packages.zip")
    shipped, os.environ["PYSPARK_PYTHON"] = options_for_executors(
        line, Path(os.environ["VIRTUAL_ENV"]), folder / "packages.zip"
    )
    return [*options, *shipped]


def _version_of(command: str) -> tuple[str, int]:
    """Return a Java's whole version text, and its major version, 0 if it does not work. Java 8 calls itself 1.8."""
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "", 0
    found = re.search(r'version "(?:1\.)?(\d+)', printed := done.stderr + done.stdout)
    return printed, int(found[1]) if found else 0


def _install_hint() -> str:
    """Return a command that installs Java; Debian releases do not all have the same versions."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    if shutil.which("apt-get"):
        names = [f"openjdk-{version}-jre-headless" for version in (17, 21, 25)]
        show = [shutil.which("apt-cache") or "/bin/false", "show"]
        known = (
            name for name in names if subprocess.run([*show, name], capture_output=True, check=False).returncode == 0
        )
        return f"{sudo}apt-get install -y {next(known, names[0])}"
    if shutil.which("dnf"):
        return f"{sudo}dnf install -y java-21-openjdk-headless"
    return "brew install openjdk@21"


def _step(title: str, command: Sequence[str], log: Path) -> None:
    """Run a command with its output in a log. Raises JobError, with the end of the output, if it fails."""
    sys.stderr.write(f"namesrv-history: {title} ...\n")
    # Its JVM outlives its Python for as long as it writes; it holds the log until then.
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False
    )
    log.write_bytes(done.stdout)
    if done.returncode:
        lines = "".join(f"\n  | {line}" for line in done.stdout.decode(errors="replace").splitlines()[-15:])
        raise JobError(f"{title}: failed. Full output: {log}{lines}")


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _says(marker: Path, text: str) -> bool:
    return marker.exists() and marker.read_text(encoding="utf-8") == text


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, so that of two starts at once the second waits and then finds the work done."""
    if not os.access(path.parent if path.parent.exists() else path.parent.parent, os.W_OK):
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
