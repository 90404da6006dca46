"""What is installed has no known vulnerability, where the package index can be asked for advisories."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

AUDIT = (sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--format", "json", "--timeout", "10")


def test_no_known_vulnerability() -> None:
    done = subprocess.run([*AUDIT, "--skip-editable"], capture_output=True, text=True, timeout=300, check=False)
    if not done.stdout.startswith("{"):
        pytest.skip(f"no advisories can be had here: {done.stderr.strip().splitlines()[-1:]}")
    found = json.loads(done.stdout)["dependencies"]
    audited = [package for package in found if "skip_reason" not in package]
    if not audited:
        pytest.skip(f"the package index has no advisories for any of {len(found)} packages")
    assert {package["name"]: package["vulns"] for package in audited if package["vulns"]} == {}
