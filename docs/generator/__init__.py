"""Builds the documentation site: `python -m docs.generator` writes it to build/site as plain files."""
