"""Stands in for ssh: `small_host.py -o OPTION -o OPTION -- HOST COMMAND`.

The host is this machine, but has room for SMALL_HOST_MIB of what ranks share and print. Wants root.
"""

import os
import sys

MOUNTED = """\
mount -t tmpfs -o size="$SMALL_HOST_MIB"m none /dev/shm && \
mount -t tmpfs -o size="$SMALL_HOST_MIB"m none "$SMALL_HOST_DIRECTORY" && \
TMPDIR="$SMALL_HOST_DIRECTORY" exec sh -c "exec $0"
"""

if __name__ == "__main__":
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c", MOUNTED, sys.argv[-1]])
