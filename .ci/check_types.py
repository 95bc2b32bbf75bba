"""Check that type checkers know at least 98 % of the public names: `make types`."""

import json
import os
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "pyright", "--ignoreexternal", "--outputjson"]
TARGET = 0.98

# Pyright asks the first Python of the path where packages are, whatever it is told.
path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
result = subprocess.run(
    [*COMMAND, "--verifytypes", "skdpsco"],
    capture_output=True,
    check=False,
    env={**os.environ, "PATH": path},
)
completeness = json.loads(result.stdout)["typeCompleteness"]
for symbol in completeness["symbols"]:
    for fault in symbol["diagnostics"]:
        print(symbol["name"], fault["message"].split("\n")[0], sep=": ")
score = completeness["completenessScore"]
print(f"The types of {score:.1%} of the public names are known.")
sys.exit(score < TARGET)
