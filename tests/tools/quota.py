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

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
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
    def ask(*words):
        done = subprocess.run(
            [str(word) for word in (*NOBODY, "env", f"TMPDIR={elsewhere}", gpumem, *words)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1200,
        )
        return done.returncode, done.stdout

    process = subprocess.Popen([*NOBODY, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    yield "run", *ask("run", "-o", folder / "run.gpumem", "--", program)
    yield "attach", *ask("attach", process.pid, "-o", folder / "attach.gpumem", "--timeout", 600)
    yield "core", *ask("core", process.pid, "-o", folder / "core")
    yield "export", *ask("export", elsewhere / "made.gpumem", "--to", "csv", "-o", folder / "out.csv")
    yield "files", 0, " ".join(sorted(path.name for path in folder.iterdir()))
    process.communicate("\n")
    yield "ends", process.returncode, ""


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        place, image, repository = Path(folder) / "place", Path(folder) / "memory" / "image", Path(folder) / "repository"
        for path in (place, image.parent, repository):
            path.mkdir()
        subprocess.run(["mount", "--bind", sys.argv[1], repository], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", image.parent], check=True)
        image.parent.chmod(0o777)
        program = image.parent / "waits"
        subprocess.run(["cc", "-o", program, "-xc", "-"], input=WAITS, text=True, check=True)
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
