"""Stands in for ssh: `namespace_host.py -o OPTION -o OPTION -- HOST COMMAND`.

The host is a network namespace of that name.
"""

import os
import sys

if __name__ == "__main__":
    host, command = sys.argv[-2:]
    os.execvp("ip", ["ip", "netns", "exec", host, "sh", "-c", f"exec {command}"])
