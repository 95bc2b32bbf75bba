"""Where the page of an estimator is, for scikit-learn's display of estimators in notebooks."""

import sys


class Documented:
    """Mixin for estimators with a page of their own; scikit-learn reads these attributes."""

    _doc_link_module = "skdpsco"
    _doc_link_template = "https://skdpsco.readthedocs.io/en/stable/api/generated/{page}.html"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Name the page by the shortest path from which users can import the class."""
        package, room, *_ = type(self).__module__.split(".")
        name = type(self).__name__
        listed = name in sys.modules[package].__all__
        return {"page": f"{package}.{name}" if listed else f"{package}.{room}.{name}"}
