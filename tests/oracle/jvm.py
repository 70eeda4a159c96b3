"""Java for tests: JARs by Maven coordinates, our own Java source compiled, and one JVM that answers line by line.

Nothing has to be installed but a Java runtime: Ivy comes with PySpark, and where there is no `javac` the Eclipse
compiler is fetched like any other JAR. What is fetched and compiled stays in the project's Ivy folder, so that a network
is needed only once: `python -m tests.oracle.jvm` fetches all that tests run, which takes minutes. A machine's own
`~/.ivy2/ivysettings.xml` (mirrors, credentials) and `~/.m2` are respected.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_IVY = Path(os.environ.get("NAMESRV_IVY", _HERE.parents[1] / ".ivy2")) / "oracle"
_SETTINGS = _HERE / "ivysettings.xml"
_ECLIPSE_COMPILER = "org.eclipse.jdt:ecj:3.33.0"
_RUN_BY_TESTS = (
    *("namesrv:4.9.7", "client:4.9.7", "broker:4.9.7"),
    *("namesrv:5.4.0", "client:5.4.0", "broker:5.4.0", "tools:5.4.0"),
)
# For a process that lasts for seconds, of which one would go into verifying and optimizing.
BRIEF = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
)
_RELEASE = "17"  # of the Java language; the project asks for Java 17 anyway


class JvmUnavailableError(RuntimeError):
    """No Java, or a JAR could neither be found nor fetched: the message says which and what to do."""


class JvmFailedError(RuntimeError):
    """The JVM ended or answered too little; the message ends with what it wrote to its standard error."""


def pyspark_jar(name: str) -> Path:
    """Return the JAR `<name>-<version>.jar` that PySpark brings. Raises JvmUnavailableError if there is none."""
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path()
    found = sorted(folder.glob(f"{name}-[0-9]*.jar"))
    if not found:
        raise JvmUnavailableError(f"{name}: PySpark has no such JAR in {folder}")
    return found[-1]


def jars(coordinates: str) -> list[Path]:
    """Return the JAR at `organisation:module:version` and all that it depends on, fetched if they are not here yet.

    Raises JvmUnavailableError where that fails, as without a network.
    """
    listed = _IVY / f"{coordinates.replace(':', '_')}.classpath"
    if not _all_there(listed):
        with _locked():
            if not _all_there(listed):
                _fetch(coordinates, listed)
    return _paths(listed)


def fetch_all() -> None:
    """Fetch what tests run and is not here yet. Raises JvmUnavailableError where that fails."""
    for module in _RUN_BY_TESTS:
        jars(f"org.apache.rocketmq:rocketmq-{module}")


def compiled(folders: Sequence[Path], classpath: Sequence[Path]) -> Path:
    """Return the folder of the classes compiled from all `.java` files in `folders`; what was compiled before is reused.

    Raises JvmFailedError with the compiler's messages if the source has errors.
    """
    sources = sorted(path for folder in folders for path in folder.rglob("*.java"))
    digest = hashlib.sha256(_RELEASE.encode())
    for path in (*sources, *classpath):
        digest.update(path.name.encode() + b"\0" + (path.read_bytes() if path.suffix == ".java" else b""))
    target = _IVY / "classes" / digest.hexdigest()[:16]
    compiler = _compiler()
    with _locked():
        if not target.is_dir():
            half_made = Path(tempfile.mkdtemp(dir=_IVY))
            options = ["-d", str(half_made), "-cp", _joined(classpath), "-source", _RELEASE, "-target", _RELEASE]
            done = _run([*compiler, "-nowarn", *options, *map(str, sources)])
            if done.returncode:
                shutil.rmtree(half_made)
                raise JvmFailedError(f"compiling {folders[0]}: {done.stdout}")
            target.parent.mkdir(exist_ok=True)
            half_made.rename(target)
    return target


class Jvm:
    """A JVM whose main class answers lines: `ask` sends some and returns one answer for each.

    The other side is `LineServer` in the folder java/common. `contextlib.closing` ends the JVM with a block. One that is not
    `is_brief` works for so long that to optimize pays.
    """

    def __init__(
        self, main: str, classpath: Sequence[Path], *arguments: str, options: Sequence[str] = (), is_brief: bool = True
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the JVM
        how = BRIEF if is_brief else ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4")
        command = [_java(), *how, *options, "-cp", _joined(classpath), main]
        self._process = subprocess.Popen(
            [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    def ask(self, lines: Sequence[str]) -> list[str]:
        """Send `lines` (none of them empty) and return their answers. Raises JvmFailedError if the JVM ends."""
        self.send(lines)
        return self.receive(len(lines))

    def send(self, lines: Sequence[str]) -> None:
        """Send `lines`; the JVM works on them while the caller does something else, until `receive`."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            # The empty line says that this is all: the JVM reads to it before it answers, so neither side can block.
            stdin.write("".join(f"{line}\n" for line in (*lines, "")).encode(errors="surrogatepass"))
            stdin.flush()
        except BrokenPipeError:
            raise self._failed() from None

    def receive(self, count: int) -> list[str]:
        """Return the answers to the `count` lines that were sent before."""
        stdout = self._process.stdout
        assert stdout is not None
        answers = [stdout.readline() for _ in range(count)]
        if answers and not answers[-1].endswith(b"\n"):
            raise self._failed()
        return [answer[:-1].decode(errors="surrogatepass") for answer in answers]

    def close(self) -> None:
        """End the JVM."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def _failed(self) -> JvmFailedError:
        code = self._process.wait()
        self._errors.seek(0)
        return JvmFailedError(f"the JVM ended with {code}: {self._errors.read().decode(errors='replace')[-4000:]}")


def _fetch(coordinates: str, listed: Path) -> None:
    own_settings = Path.home() / ".ivy2" / "ivysettings.xml"
    settings = own_settings if own_settings.is_file() else _SETTINGS
    partly, cache = listed.with_suffix(".part"), _IVY / "cache"
    if listed.exists():
        _forget_notes(cache)
    done = _run(
        [
            _java(), *BRIEF, "-jar", str(pyspark_jar("ivy")), "-settings", str(settings), "-cache", str(cache),
            "-dependency", *coordinates.split(":"), "-confs", "default", "-cachepath", str(partly),
        ]
    )  # fmt: skip
    if done.returncode or not _all_there(partly):
        _forget_notes(cache)
        reasons = [line.strip() for line in done.stdout.splitlines() if "::" in line or "rror" in line]
        raise JvmUnavailableError(
            f"{coordinates} could not be fetched; a network is needed the first time "
            f"(proxies: JAVA_TOOL_OPTIONS, mirrors: ~/.ivy2/ivysettings.xml)\n" + "\n".join(reasons[-12:])
        )
    partly.rename(listed)


def _forget_notes(cache: Path) -> None:
    """Have Ivy look for everything anew: what it noted when it failed, or when JARs lay elsewhere, it would believe."""
    for noted in cache.rglob("ivydata-*.properties"):
        noted.unlink()


def _all_there(listed: Path) -> bool:
    return listed.is_file() and all(path.is_file() for path in _paths(listed))


def _paths(listed: Path) -> list[Path]:
    return [Path(name) for name in listed.read_text().strip().split(os.pathsep)]


def _joined(classpath: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, classpath))


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        raise JvmUnavailableError("java: not found; set JAVA_HOME or put Java 17 or newer on PATH")
    return found


def _compiler() -> list[str]:
    """Return the command of a Java compiler: the JDK's own beside `java`, else Eclipse's."""
    javac = shutil.which("javac", path=str(Path(_java()).resolve().parent))
    return [javac] if javac else [_java(), "-jar", str(jars(_ECLIPSE_COMPILER)[0])]


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@contextmanager
def _locked() -> Iterator[None]:
    """Hold the folder: of two processes that want the same JARs, one fetches and the other waits."""
    _IVY.mkdir(parents=True, exist_ok=True)
    with (_IVY / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        fetch_all()
    except JvmUnavailableError as error:
        sys.exit(f"namesrv-history: {error}")
