"""Check that type checkers know at least 98 % of the public names: `make types`."""

import json
import subprocess
import sys

COMMAND = [sys.executable, "-m", "pyright", "--ignoreexternal", "--outputjson"]
TARGET = 0.98

result = subprocess.run([*COMMAND, "--verifytypes", "skdpsco"], capture_output=True, check=False)
completeness = json.loads(result.stdout)["typeCompleteness"]
for symbol in completeness["symbols"]:
    for fault in symbol["diagnostics"]:
        print(symbol["name"], fault["message"].split("\n")[0], sep=": ")
score = completeness["completenessScore"]
print(f"The types of {score:.1%} of the public names are known.")
sys.exit(score < TARGET)
