"""A small virtual machine with Debian's kernel, for tests of what the kernel here does not have (Yama).

Its processor is emulated, so that it needs no /dev/kvm. It has the files of this machine, and keeps what it writes to itself.
The kernel comes from Debian's package, which is unpacked and not installed.
"""

import json
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

KERNEL = Path(os.environ.get("GPUMEM_CACHE") or Path.home() / ".cache" / "gpumem") / "kernel"
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay"]
# The machine's first program: loads the modules, mounts the files, runs the command, and switches the machine off.
INIT = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void load(const char *path)
{
	int fd = open(path, O_RDONLY);
	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) != 0)
		perror(path);
	close(fd);
}

static void attach(const char *what, const char *where, const char *type, const char *options)
{
	mkdir(where, 0755);
	if (mount(what, where, type, 0, options) != 0)
		perror(where);
}

int main(void)
{
	static const char *const modules[] = {@MODULES@};
	for (size_t i = 0; i < sizeof(modules) / sizeof(*modules); i++)
		load(modules[i]);
	attach("host", "/host", "9p", "trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288");
	attach("none", "/writes", "tmpfs", "mode=755");
	mkdir("/writes/upper", 0755);
	mkdir("/writes/work", 0755);
	attach("none", "/root", "overlay", "lowerdir=/host,upperdir=/writes/upper,workdir=/writes/work");
	attach("share", "/root@SHARE@", "9p", "trans=virtio,version=9p2000.L,msize=524288");
	attach("none", "/root/proc", "proc", "");
	attach("none", "/root/sys", "sysfs", "");
	attach("none", "/root/dev", "devtmpfs", "");
	attach("none", "/root/dev/pts", "devpts", "");
	if (fork() == 0) {
		if (chroot("/root") != 0 || chdir("@SHARE@") != 0)
			_exit(1);
		setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
		execl("/bin/sh", "sh", "-c", "sh command > output 2> errors; echo $? > status", (char *)NULL);
		_exit(127);
	}
	while (wait(NULL) > 0)
		;
	sync();
	reboot(RB_POWER_OFF);
}
"""


def why_not():
    """Why there can be no such machine here, or None."""
    if os.geteuid() != 0:
        return "only root may show a machine all files of this one"
    if not shutil.which("qemu-system-x86_64"):
        return "no qemu-system-x86_64 here (Debian: apt-get install --no-install-recommends qemu-system-x86)"
    if not Path(subprocess.run(["cc", "-print-file-name=libc.a"], capture_output=True, text=True).stdout.strip()).is_absolute():
        return "no static C library here (Debian: libc6-dev)"
    return fetch_kernel()


def fetch_kernel():
    """Why there is no kernel, or None: the newest of apt's, which is kept."""
    if list(KERNEL.glob("boot/vmlinuz-*")):
        return None
    if not shutil.which("apt-get"):
        return "no apt here, which has a kernel with Yama"
    depends = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True).stdout
    name = re.search(r"Depends: (linux-image-\S+)", depends)
    if not name:
        return "apt knows no linux-image-amd64"
    KERNEL.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=KERNEL.parent) as folder:
        got = subprocess.run(["apt-get", "-q", "download", f"{name[1]}:amd64"], cwd=folder, capture_output=True, text=True)
        package = next(Path(folder).glob("*.deb"), None)
        if not package:
            return f"apt could not download {name[1]}: {got.stderr.strip()[-200:]}"
        subprocess.run(["dpkg-deb", "-x", package, f"{folder}/kernel"], check=True)
        shutil.rmtree(KERNEL, ignore_errors=True)
        Path(f"{folder}/kernel").rename(KERNEL)
    return None


def modules(names):
    """{name: bytes} of these, each after those that it needs."""
    found = {}

    def add(name):
        spellings = (name, name.replace("_", "-"))
        path = next(path for word in spellings for path in KERNEL.glob(f"lib/modules/*/kernel/**/{word}.ko*"))
        data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        for other in re.search(rb"\0depends=([^\0]*)\0", data)[1].decode().split(","):
            if other and other not in found:
                add(other)
        found[name] = data

    for name in names:
        if name not in found:
            add(name)
    return found


def archive(files):
    """What the kernel unpacks into its first file system: cpio's format "newc"."""
    text = b""
    for number, (name, mode, data) in enumerate([*files, ("TRAILER!!!", 0, b"")], 1):
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        text += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        text += b"\0" * (-len(text) % 4) + data
        text += b"\0" * (-len(text) % 4)
    return text


def run(command, share, more_modules=(), timeout=7200):
    """(status, output, errors) of a shell command in the machine, as root, in the folder `share`, which both see."""
    share = Path(share).resolve()
    found = modules([*MODULES, *more_modules])
    with tempfile.TemporaryDirectory() as folder:
        init, initramfs = Path(folder) / "init", Path(folder) / "initramfs"
        names = ", ".join(f'"/{name}.ko"' for name in found)
        source = INIT.replace("@MODULES@", names).replace("@SHARE@", str(share))
        subprocess.run(["cc", "-static", "-o", init, "-xc", "-"], input=source, text=True, check=True)
        files = [(f"{name}.ko", 0o100644, data) for name, data in found.items()]
        initramfs.write_bytes(archive([*files, ("init", 0o100755, init.read_bytes())]))
        (share / "command").write_text(command)
        words = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "2G", "-nodefaults", "-no-reboot"]
        words += ["-display", "none", "-serial", f"file:{share}/console", "-append", "console=ttyS0 quiet panic=-1"]
        words += ["-kernel", next(KERNEL.glob("boot/vmlinuz-*")), "-initrd", initramfs]
        words += ["-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"]
        words += ["-virtfs", f"local,path={share},mount_tag=share,security_model=none"]
        subprocess.run(words, stdin=subprocess.DEVNULL, timeout=timeout, check=True)
    if not (share / "status").exists():
        raise RuntimeError("the machine ran no command: " + (share / "console").read_text(errors="replace")[-2000:])
    output, errors = ((share / name).read_text(errors="replace") for name in ("output", "errors"))
    return int((share / "status").read_text()), output, errors


def trials(script, more_modules=()):
    """(what a script of tests/tools prints in the machine, an object of JSON a line; what it prints to stderr)"""
    tools = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as share:
        command = f"/usr/bin/python3 {tools / script} {tools.parents[1]}"
        status, output, errors = run(command, share, more_modules)
    assert status == 0, errors
    return [json.loads(line) for line in output.splitlines()], errors
