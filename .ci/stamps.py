"""Stamps: what a check has passed before, so that the next run on this machine need not repeat it.

A stamp is a file in the user's cache folder. Its name is a hash of what was run (the command, the compiler), its content
the files that were read and a hash of their contents. It is written only after a pass without a finding."""

import hashlib
import json
import os
import pathlib
import sys
import time


def hash_of(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


class Stamps:
    """The stamps of one kind of check. `root`, `build`: absolute folders, whose paths do not count.
    With `known` false, no stamp is believed, but all are written."""

    def __init__(self, kind, root, build, known=True):
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        self.folder = pathlib.Path(cache, "tp-infer-ci", kind)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.places = [(str(build) + "/", "BUILD/"), (str(root) + "/", "ROOT/")]
        self.known = known
        self.hashes = {}

    def portable(self, text):
        for path, name in self.places:
            text = text.replace(path, name)
        return text

    def local(self, name):
        for path, place in self.places:
            if name.startswith(place):
                return path + name[len(place):]
        return name

    def hash_of_file(self, path):
        if path not in self.hashes:
            try:
                self.hashes[path] = hash_of(pathlib.Path(path).read_bytes())
            except OSError:
                self.hashes[path] = "absent"
        return self.hashes[path]

    def hash_of_files(self, paths):
        return hash_of(*(self.portable(path) + self.hash_of_file(path) for path in sorted(paths)))

    def read(self, key):
        """The files of a stamp, or None if the check must run."""
        try:
            stamp = json.loads((self.folder / key).read_text())
        except (OSError, ValueError):
            return None
        files = [self.local(name) for name in stamp["files"]]
        return files if self.known and self.hash_of_files(files) == stamp["hash"] else None

    def write(self, key, files):
        names = sorted(self.portable(path) for path in files)
        text = json.dumps({"files": names, "hash": self.hash_of_files(files)})
        partial = self.folder / f"{key}.{os.getpid()}"
        partial.write_text(text)
        partial.replace(self.folder / key)

    def remove_old(self, days=60):
        """Removes the stamps that nothing has written for so long."""
        for path in self.folder.iterdir():
            if path.stat().st_mtime < time.time() - 86400 * days:
                path.unlink(missing_ok=True)


def files_in_depfile(path, folder):
    """The files that a compiler's depfile names, as absolute paths. `folder`: where the compiler ran."""
    text = pathlib.Path(path).read_text().replace("\\\n", " ")
    names = text.split(": ", 1)[1].split()
    return {os.path.normpath(os.path.join(folder, name)) for name in names}


def fail(message):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {message}")
