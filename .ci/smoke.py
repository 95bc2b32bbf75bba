"""Import the installed wheel and fit a tiny model. `make sdist` runs it, isolated from the tree."""

import re
import subprocess
import sys
from importlib.metadata import metadata, version
from pathlib import Path

import numpy as np
from numba.core.event import install_recorder

import skdpsco

package = Path(skdpsco.__file__).parent
assert package.parent.name == "site-packages", f"not the wheel: {package}"
assert (package / "py.typed").is_file(), "py.typed is missing"
relative = re.findall(r"\]\((?!https://)[^)]*\)", metadata("skdpsco")["Description"])
assert relative == [], f"links of the README that lead nowhere on a package index: {relative}"

if hasattr(skdpsco, "PrivateLasso"):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(200, 5))
    model = skdpsco.PrivateLasso(epsilon=1.0, delta=1e-6, radius=1.0, feature_bound=1.0)
    assert model.fit(X, X[:, 0]).predict(X).shape == (200,)
    assert np.abs(model.coef_).sum() <= 1.0 + 1e-9
    subprocess.run([sys.executable, "-I", "-m", "skdpsco.compile"], check=True)
    X = np.tile(X, (20, 1))
    with install_recorder("numba:compile") as compiled:
        skdpsco.PrivateLogisticRegression().fit(X, X[:, 0] > 0.0)
    assert compiled.buffer == [], "a fit has compiled what should have been on disk"
print("skdpsco", version("skdpsco"), "works from its wheel.")
