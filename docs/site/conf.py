"""What Sphinx builds the pages with; build.py says from what."""

project = "Tidemark"
extensions = ["myst_parser", "sphinxcontrib.mermaid"]
# As forges draw it.
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Tidemark"
html_copy_source = False
