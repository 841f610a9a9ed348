"""The recipe of a guest image: packages of each layer, paths that stay out, files that are added.

The packages are named one by one, without their dependencies: those of Debian's Python libraries
end at compilers, Tk and X11, and a guest has none of them.  A test starts the guest and uses every
library, so a missing package is found.
"""

from collections.abc import Mapping
from typing import Final

KERNEL: Final = "kernel"
AGENT: Final = "agent"
# Names the package of the current kernel among its dependencies; itself empty.
KERNEL_NAMED_BY: Final = "linux-image-cloud-amd64"
ARCHITECTURE: Final = "amd64"

BASE: Final = (
    *("coreutils", "dash", "diffutils", "findutils", "grep", "gzip", "libacl1", "libattr1"),
    *("libbz2-1.0", "libc-bin", "libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1"),
    *("libgmp10", "liblzma5", "libpcre2-8-0", "libpython3.11-minimal", "libpython3.11-stdlib"),
    *("libselinux1", "libsqlite3-0", "libssl3", "libuuid1", "mawk", "python3-minimal"),
    *("python3.11-minimal", "sed", "tzdata", "zlib1g"),
)
SCIENCE: Final = (
    *("fonts-dejavu-core", "fonts-lyx", "libbrotli1", "libbsd0", "libdeflate0", "libfreetype6"),
    *("libfribidi0", "libgfortran5", "libglib2.0-0", "libgomp1", "libgraphite2-3"),
    *("libharfbuzz0b", "libimagequant0", "libjbig0", "libjpeg62-turbo", "liblbfgsb0"),
    *("liblcms2-2", "liblerc4", "libmd0", "libopenblas0-pthread", "libopenjp2-7"),
    *("libpng16-16", "libqhull-r8.0", "libquadmath0", "libraqm0", "libstdc++6", "libtiff6"),
    *("libwebp7", "libwebpdemux2", "libwebpmux3", "libxau6", "libxcb1", "libxdmcp6", "libzstd1"),
    *("python-matplotlib-data", "python3-contourpy", "python3-cycler", "python3-dateutil"),
    *("python3-decorator", "python3-fonttools", "python3-kiwisolver", "python3-matplotlib"),
    *("python3-mpmath", "python3-numpy", "python3-packaging", "python3-pandas"),
    *("python3-pandas-lib", "python3-pil", "python3-pyparsing", "python3-scipy", "python3-six"),
    *("python3-sympy", "python3-tz"),
)
LAYERS: Final[Mapping[str, tuple[str, ...]]] = {"base": BASE, "science": SCIENCE}

# Prefixes of paths that stay out: nobody reads documents in a guest, nothing is installed or
# compiled there, nobody logs in, and there is no network.
LEFT_OUT: Final = (
    *("etc/", "var/", "usr/sbin/", "usr/include/", "usr/share/doc/", "usr/share/man/"),
    *("usr/share/info/", "usr/share/locale/", "usr/share/lintian/", "usr/share/bug/"),
    *("usr/share/doc-base/", "usr/share/menu/", "usr/share/applications/", "usr/share/pixmaps/"),
    *("usr/share/python3/", "usr/share/binfmts/", "usr/share/bash-completion/"),
    *("usr/share/gdb/", "usr/share/perl5/", "usr/share/gcc/", "usr/share/libc-bin/"),
    *("usr/share/base-files/", "usr/share/debianutils/", "usr/share/fish/", "usr/share/zsh/"),
    *("usr/share/initramfs-tools/", "usr/lib/valgrind/", "usr/lib/tmpfiles.d/"),
    *("usr/lib/systemd/", "usr/share/numpy3/", "usr/share/fontconfig/"),
    *("usr/lib/x86_64-linux-gnu/audit/", "usr/lib/x86_64-linux-gnu/gconv/"),
    *("usr/lib/x86_64-linux-gnu/perl", "usr/lib/x86_64-linux-gnu/ossl-modules/"),
    *("usr/lib/python3.11/ensurepip/", "usr/lib/python3.11/idlelib/"),
    *("usr/lib/python3.11/lib2to3/", "usr/lib/python3.11/turtledemo/"),
    *("usr/lib/python3.11/pydoc_data/", "usr/lib/python3.11/distutils/"),
    *("usr/share/zoneinfo/right/", "usr/share/zoneinfo/posix/", "usr/share/matplotlib/sample"),
    "usr/share/matplotlib/mpl-data/sample_data/",
)
# Programs that need a network, another root or a terminal, or show things that a guest lacks.
BINARIES_LEFT_OUT: Final = frozenset(
    {
        *("catchsegv", "getconf", "getent", "iconv", "ldd", "locale", "localedef", "pldd"),
        *("tzselect", "zdump", "chroot", "pinky", "stty", "users", "who", "hostid", "logname"),
        *("gzexe", "uncompress", "c_rehash", "openssl", "fonttools", "pyftmerge", "pyftsubset"),
        *("ttx", "f2py", "f2py3", "f2py3.11", "isympy", "isympy3", "pdb3.11", "pydoc3.11"),
        *(
            "pygettext3.11",
            "2to3-3.11",
            "py3clean",
            "py3compile",
            "py3versions",
            "dh_numpy3",
            "md5sum.textutils",
        ),
    }
)
# Parts of Python packages that are tests of themselves.
TESTS_LEFT_OUT: Final = ("/tests/", "/test/")

# Links that maintainer scripts make, with `update-alternatives` or directly.
LINKS: Final[Mapping[str, Mapping[str, str]]] = {
    "base": {
        "bin": "usr/bin",
        "lib": "usr/lib",
        "lib64": "usr/lib64",
        "sbin": "usr/sbin",
        "usr/bin/awk": "mawk",
        "usr/bin/sh": "dash",
    },
    "science": {
        "usr/lib/x86_64-linux-gnu/libblas.so.3": "openblas-pthread/libblas.so.3",
        "usr/lib/x86_64-linux-gnu/liblapack.so.3": "openblas-pthread/liblapack.so.3",
        "usr/lib/x86_64-linux-gnu/libopenblas.so.0": "openblas-pthread/libopenblas.so.0",
    },
}
# Mount points with their modes, and the few files that every program looks for.
DIRECTORIES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("dev", "etc", "in", "out", "proc", "run", "sys", "usr/sbin"), 0o755),
    "threegate/agent": 0o755,
    "tmp": 0o1777,
}
FILES: Final[Mapping[str, bytes]] = {
    "etc/passwd": b"root:x:0:0:root:/:/usr/bin/false\n"
    b"job:x:1000:1000:job:/tmp:/usr/bin/false\n"
    b"nobody:x:65534:65534:nobody:/:/usr/bin/false\n",
    "etc/group": b"root:x:0:\njob:x:1000:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
    "etc/hosts": b"127.0.0.1 localhost\n",
}
# Files below /etc that a program needs.
KEPT: Final = ("etc/matplotlibrc",)

# The guest's devices and file systems; each module lists the modules that it needs.
MODULES: Final = ("virtio_mmio", "virtio_blk", "virtio_console", "erofs", "overlay")


def leaves_out(path: str) -> bool:
    """Tell whether a path of a package stays out of the guest."""
    if path in KEPT:
        return False
    if path.startswith(LEFT_OUT):
        return True
    if path.startswith("usr/bin/"):
        return path.removeprefix("usr/bin/") in BINARIES_LEFT_OUT
    is_test = any(part in f"/{path}/" for part in TESTS_LEFT_OUT)
    return (is_test and "/dist-packages/" in path) or path.endswith((".a", ".pyc", ".la"))
