"""How Sphinx builds this documentation: `make docs`."""

import re
import zlib
from importlib.metadata import metadata
from importlib.metadata import version as installed_version
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.util.nodes import get_node_source

HERE = Path(__file__).parent

project = "skdpsco"
author = "The skdpsco developers"
copyright = f"2026, {author}"
version = release = installed_version("skdpsco")

extensions = [
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_build"]
suppress_warnings = ["config.cache"]  # the order of the examples is a function

EXAMPLES = [  # in the order of the gallery
    "plot_first_model.py",
    "raw_adult.py",
    "raw_california.py",
    "plot_study_week.py",
    "plot_hospitals.py",
    "plot_synthetic_table.py",
    "plot_before_the_data.py",
    "plot_persons.py",
    "plot_secret_number.py",
    "plot_pipeline_budget.py",
    "plot_private_grid_search.py",
    "plot_additive.py",
    "plot_moments.py",
    "plot_public_start.py",
    "plot_counts.py",
    "plot_group_dro.py",
    "plot_minimax.py",
    "plot_synthetic_data.py",
    "plot_out_of_core.py",
    "plot_coordinate_descent.py",
    "plot_lp_geometry.py",
    "own_loss.py",
    "own_solver.py",
]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",  # these run
    "ignore_pattern": r"quickstart",
    "within_subsection_order": lambda name: [*EXAMPLES, name].index(name),
    "doc_module": ("skdpsco",),
    "reference_url": {"skdpsco": None},  # names in code lead to their pages
    "download_all_examples": False,
    "write_computation_times": False,
    "show_signature": False,
    "abort_on_example_error": True,
}


def binder_of(addresses):
    """Where Binder finds the tutorials: `.binder` makes notebooks of those in the repository.

    ``addresses`` are lines such as "Repository, https://github.com/owner/name". Without the address
    of a repository on GitHub tutorials have no link to Binder.
    """
    place = r"(?:Repository|Source), https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?"
    found = [match for line in addresses if (match := re.fullmatch(place, line))]
    return found and {
        "binderhub_url": "https://mybinder.org",
        "org": found[0][1],
        "repo": found[0][2],
        "branch": "main",
        "dependencies": "../.binder/requirements.txt",
    }


if binder := binder_of(metadata("skdpsco").get_all("Project-URL", [])):
    sphinx_gallery_conf["binder"] = binder

templates_path = ["_templates"]

# Code between single backticks in docstrings is a link if there is such a page, or plain code.
default_role = "obj"
toc_object_entries_show_parents = "hide"  # "On this page" names the methods, without their class
highlight_language = "none"  # blocks without a language are formulas and pseudo-code
autodoc_typehints = "none"  # numpydoc's sections say more
autosummary_generate = True
numpydoc_show_class_members = False  # the template of a class lists its methods

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"
bibtex_default_style = "unsrtalpha"

plot_formats = [("png", 150)]
plot_html_show_formats = False
plot_html_show_source_link = False

copybutton_exclude = ".linenos, .gp, .go"  # neither prompts nor output are copied

# Links to other projects need their inventories. Without a network an empty one takes their place,
# names of other projects are then no links, which does no harm to the build.
EMPTY = HERE / "_build" / "empty.inv"
EMPTY.parent.mkdir(exist_ok=True)
EMPTY.write_bytes(
    b"# Sphinx inventory version 2\n# Project: none\n# Version: none\n"
    b"# The remainder of this file is compressed using zlib.\n" + zlib.compress(b"")
)
intersphinx_mapping = {
    name: (address, (None, str(EMPTY)))
    for name, address in {
        "python": "https://docs.python.org/3",
        "numpy": "https://numpy.org/doc/stable",
        "scipy": "https://docs.scipy.org/doc/scipy",
        "sklearn": "https://scikit-learn.org/stable",
        "pandas": "https://pandas.pydata.org/docs",
        "dask": "https://docs.dask.org/en/stable",
    }.items()
}
intersphinx_timeout = 10  # seconds

html_theme = "pydata_sphinx_theme"
html_title = "skdpsco"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_use_index = False  # the reference and the search do what an index of all names would
html_theme_options = {
    "logo": {"text": html_title, "alt_text": "Home page of"},  # which the text follows
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def leave_as_text(app, env, node, contnode):
    """Show labels and terms of scikit-learn, in docstrings that are inherited from it, as text."""
    inherited = "docstring of sklearn." in (get_node_source(node) or "")
    return contnode if inherited else None


# Classes by the last part of their name, as documents write them in code spans. Penalties are not
# among them, as one is called like a model of scikit-learn.
ENTRY = re.compile(r"^   ((?!penalties)(?:\w+\.)*[A-Z]\w{3,})$", re.MULTILINE)
CLASSES = {
    entry.rpartition(".")[2]: f"skdpsco.{entry}"
    for page in (HERE / "api").glob("*.rst")
    for entry in ENTRY.findall(page.read_text("utf-8"))
}


def link_classes(app, doctree):
    """Turn a code span that is the name of a public class into a link to its page."""
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext().rpartition(".")[2]
        if name in CLASSES and isinstance(literal.parent, nodes.paragraph | nodes.strong):
            link = pending_xref("", refdomain="py", reftype="obj", reftarget=CLASSES[name])
            link["refdoc"] = app.env.docname
            literal.replace_self(link)
            link += literal


# Sphinx takes all names of a module to be documented under the same package, and those that are
# not would have links from their source to anchors that do not exist.
BACK_LINK = re.compile(r"(/(skdpsco[\w.]*)\.(\w+)\.html#)skdpsco[\w.]*?\.\3(?=[.\"])")


def mend_back_links(app, pagename, templatename, context, doctree):
    """Let links from highlighted source lead to the names that pages define."""
    if pagename.startswith("_modules/"):
        context["body"] = BACK_LINK.sub(r"\1\2.\3", context["body"])


def setup(app):
    """Let scikit-learn's inventory answer before references to it become text."""
    app.connect("html-page-context", mend_back_links)
    app.connect("doctree-read", link_classes)
    app.connect("missing-reference", leave_as_text, priority=900)
