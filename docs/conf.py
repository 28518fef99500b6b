"""The documentation site: ``make html`` builds it; warnings are errors, and no network is used."""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from seedbed import __version__

project = "seedbed"
author = "The seedbed developers"
project_copyright = "The seedbed developers, Apache-2.0"
release = version = __version__

# numpydoc also reads docstrings before the directive `api` has renamed this section.
warnings.filterwarnings("ignore", message="Unknown section Members")

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "diagrams", "reference", "offline"]
suppress_warnings = ["misc.highlighting_failure"]
exclude_patterns = ["_ext", "examples"]
html_theme = "furo"
html_title = f"seedbed {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

# Headings of three levels are link targets, so that pages link to each other as on GitHub.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

# Members in the order of the source; a class is one entry, not a table and an entry a member.
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_inherit_docstrings = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
