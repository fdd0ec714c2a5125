"""Runs programs for the scripts of this folder. A program that cannot run, or fails, ends the script with one message."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(sys.argv[0]).name


def run(program, arguments, mpirun=""):
    """Standard output of a program, which must succeed. `mpirun` is the launcher with its options, as one text."""
    command = [*shlex.split(mpirun), program, *arguments]
    environment = dict(os.environ)
    if os.geteuid() == 0:
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    require(command[0], program)
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    except OSError as error:
        sys.exit(f"{SCRIPT}: cannot run {command[0]}: {error.strerror}; build it for this machine")
    if done.returncode != 0:
        require(program, program)  # only now: a launcher may find the program in a container, or on another host
        sys.exit(f"{shlex.join(command)}\nended with status {done.returncode}:\n{done.stdout.strip()}{done.stderr.strip()}")
    return done.stdout


def require(name, program):
    """`name` is the program or its launcher."""
    if shutil.which(name) is None:
        advice = "build it (launch/quickstart), or give --program"
        if name != program:
            advice = "install it (Open MPI's: apt-get install openmpi-bin), or give --mpirun"
        sys.exit(f"{SCRIPT}: cannot run {name}: expected a program, found none of this name; {advice}")
