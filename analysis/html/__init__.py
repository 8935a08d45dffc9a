"""The report as one HTML file: styles, scripts and data inside, so it opens anywhere and asks no network."""

from analysis.html.page import write_comparison, write_page
from analysis.html.words import LANGUAGES

__all__ = ["LANGUAGES", "write_comparison", "write_page"]
