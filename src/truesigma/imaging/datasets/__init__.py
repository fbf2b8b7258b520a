"""Data sets, one file each: `load(root, *, options) -> DataSet`, with TITLE, SOURCE, LICENCE and CITATION."""
