"""Ask whether what is installed has known vulnerabilities; ``make audit`` runs it.

pip-audit asks the service of the Python package index, and takes a package that the service does not know for fine.
Here a package that nobody could tell about is a failure: an audit that did not take place must not look like one that
found nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

COMMAND = [sys.executable, "-m", "pip_audit", "--local", "--skip-editable", "--progress-spinner", "off"]


def judge(dependencies: list[dict[str, Any]]) -> tuple[int, str]:
    """Exit code and words for what pip-audit says of each package.

    Returns
    -------
    code : 0 if all are known and fine, 1 if one has a known vulnerability, 2 if some could not be audited
    words : what was found
    """
    known = [each for each in dependencies if "vulns" in each]
    lines = [
        f"{each['name']} {each['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'no version'}"
        for each in known
        for found in each["vulns"]
    ]
    lines.append(f"{len(lines)} known vulnerabilities; {len(known)} of {len(dependencies)} packages were audited")
    if len(lines) > 1:
        return 1, "\n".join(lines)
    if len(known) == len(dependencies) > 0:
        return 0, lines[-1]
    lines.append("the others are not audited: no service could be reached that knows of their vulnerabilities")
    return 2, "\n".join(lines)


def main() -> int:
    """Ask, print what was found, and give the exit code."""
    done = subprocess.run([*COMMAND, "--format", "json"], capture_output=True, encoding="utf-8", check=False)
    try:
        # The editable install of the project itself is not in any index.
        told = [each for each in json.loads(done.stdout)["dependencies"] if each["name"] != "thetarbm"]
    except ValueError:
        print(f"nothing was audited: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return 2
    code, words = judge(told)
    print(words)
    return code


if __name__ == "__main__":
    sys.exit(main())
