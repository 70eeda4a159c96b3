"""Network namespaces joined by pairs of veth, whose packets are those of a wire: no larger than the MTU, with checksums.

Linux, as root, with `ip` of iproute2. Nothing leaves the namespaces: none has an interface of the machine's.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_NAMED: Final = Path("/var/run/netns")
_NEW_NETWORK: Final = 0x40000000
_ETHTOOL: Final = 0x8946
_OFFLOADS: Final = (0x15, 0x17, 0x19, 0x1F, 0x24, 0x2C)
"""ETHTOOL_SRXCSUM, STXCSUM, SSG, STSO, SGSO, SGRO."""


class NamespaceError(OSError):
    """Namespaces cannot be made here: the message says what failed."""


@contextmanager
def inside(namespace: str | None) -> Iterator[None]:
    """Be in a namespace: sockets that this thread makes meanwhile belong to it for good. None: nothing changes."""
    if namespace is None:
        yield
        return
    with Path("/proc/thread-self/ns/net").open("rb") as home, (_NAMED / namespace).open("rb") as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def command(namespace: str | None, *words: str) -> tuple[str, ...]:
    """Return the command that runs `words` in a namespace."""
    return words if namespace is None else ("ip", "netns", "exec", namespace, *words)


def add(namespace: str) -> None:
    """Make a namespace. Raises NamespaceError where that is not allowed."""
    _ip("netns", "add", namespace)
    _ip("-n", namespace, "link", "set", "lo", "up")


def remove(namespaces: Sequence[str]) -> None:
    """Remove namespaces with all that is in them; those that are not there are passed over."""
    for namespace in namespaces:
        if (_NAMED / namespace).exists():
            _ip("netns", "del", namespace)


def join(host: str, router: str, name: str, addresses: Sequence[str], gateways: Sequence[str]) -> tuple[bytes, bytes]:
    """Join a host's `eth0` to the router's interface `name`; return the hardware addresses of both, the host's first.

    The host has `addresses` (with the length of their prefix) and sends all else through `gateways`, which stand for the
    router's end: it has no addresses of its own.
    """
    _ip("-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", router)
    for namespace, interface in ((host, "eth0"), (router, name)):
        _ip("-n", namespace, "link", "set", interface, "addrgenmode", "none")
        _without_offloads(namespace, interface)
    _ip("netns", "exec", router, "sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
    for address in addresses:
        _ip("-n", host, "address", "add", address, "dev", "eth0", *(("nodad",) if ":" in address else ()))
    for namespace, interface in ((host, "eth0"), (router, name)):
        _ip("-n", namespace, "link", "set", interface, "up")
    own, far = _hardware(host, "eth0"), _hardware(router, name)
    for gateway in gateways:
        _ip("-n", host, "neigh", "add", gateway, "lladdr", far.hex(":"), "dev", "eth0", "nud", "permanent")
        _ip("-n", host, *(("-6",) if ":" in gateway else ()), "route", "add", "default", "via", gateway, "dev", "eth0")
    return own, far


def _hardware(namespace: str, interface: str) -> bytes:
    with inside(namespace), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as one:
        one.bind((interface, 0))
        found: bytes = one.getsockname()[4]
        return found


def _without_offloads(namespace: str, interface: str) -> None:
    with inside(namespace), socket.socket() as one:
        for offload in _OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("II", offload, 0))
            asked = struct.pack("16sP", interface.encode(), ctypes.addressof(value)) + bytes(16)
            fcntl.ioctl(one, _ETHTOOL, asked)


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _NEW_NETWORK):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _ip(*words: str) -> None:
    try:
        done = subprocess.run(("ip", *words), capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NamespaceError("needs `ip` of iproute2") from error
    if done.returncode:
        raise NamespaceError(f"ip {' '.join(words)}: {done.stderr.strip()}")
