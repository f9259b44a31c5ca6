"""What a user meets whose disk quota is used up: runs as root, and makes a file system with quotas (ext4 on a loop device).

Use: quota.py REPOSITORY    # prints a line of JSON for each trial
"""

import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from in_vm import NOBODY, ask, compile_program, mount_repository

WAITS = """
#include <stdio.h>
int main(void)
{
	puts("begun");
	fflush(stdout);
	getchar();
	return 0;
}
"""


def limit(device, kib):
    """Of nobody's blocks: Q_SETQUOTA, with only QIF_BLIMITS valid."""
    quota = struct.pack("8QI4x", kib, kib, 0, 0, 0, 0, 0, 0, 1)
    if ctypes.CDLL(None, use_errno=True).quotactl(0x800008 << 8, device.encode(), 65534, quota) != 0:
        raise OSError(ctypes.get_errno(), "quotactl")


def trials(gpumem, program, folder, elsewhere):
    def told(*words):
        return ask([*NOBODY, "env", f"TMPDIR={elsewhere}", gpumem, *words], folder)

    process = subprocess.Popen([*NOBODY, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    yield "run", *told("run", "-o", folder / "run.gpumem", "--", program)
    yield "attach", *told("attach", process.pid, "-o", folder / "attach.gpumem", "--timeout", 600)
    yield "core", *told("core", process.pid, "-o", folder / "core")
    yield "export", *told("export", elsewhere / "made.gpumem", "--to", "csv", "-o", folder / "out.csv")
    yield "files", 0, " ".join(sorted(path.name for path in folder.iterdir()))
    process.communicate("\n")
    yield "ends", process.returncode, ""


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        place, image = Path(folder) / "place", Path(folder) / "memory" / "image"
        for path in (place, image.parent):
            path.mkdir()
        repository = mount_repository(sys.argv[1], folder)
        subprocess.run(["mount", "-t", "tmpfs", "none", image.parent], check=True)
        image.parent.chmod(0o777)
        program = image.parent / "waits"
        compile_program(WAITS, program)
        subprocess.run([repository / "build/tests/bench_log", "2000", image.parent / "made.gpumem", "training", "packed"], check=True, stdout=subprocess.DEVNULL)
        (image.parent / "made.gpumem").chmod(0o644)
        with image.open("wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-O", "quota", "-E", "quotatype=usrquota", image], check=True)
        subprocess.run(["mount", "-o", "loop,usrquota", image, place], check=True)
        device = next(line.split()[0] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[1] == str(place))
        place.chmod(0o777)
        for kib in (4, 64, 0):  # 0: no limit
            limit(device, kib)
            own = place / str(kib)
            own.mkdir()
            own.chmod(0o777)
            for what, status, said in trials(repository / "build/bin/gpumem", program, own, image.parent):
                print(json.dumps({"kib": kib, "what": what, "status": status, "said": said}), flush=True)


if __name__ == "__main__":
    main()
