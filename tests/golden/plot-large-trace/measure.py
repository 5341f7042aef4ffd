"""Runs a program and says whether its memory stayed below three times the size of its file, 16 MB for itself aside.
With an address sanitizer, which multiplies memory, it is not measured."""
import os
import resource
import shutil
import subprocess
import sys

program = shutil.which(sys.argv[1])
subprocess.run(sys.argv[1:], check=True)
used = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - (16 << 20)
with open(program, "rb") as file:
    sanitized = b"__asan_init" in file.read()
print("memory is small:", sanitized or used < 3 * os.path.getsize("trace.json"))
