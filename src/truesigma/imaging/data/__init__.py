"""From files to batches: what a data set is, how it is split, prepared and augmented, and in which unit it predicts.

Image files and tables come in; `DataSet`, `Split` and batches of tensors go out. Nothing here knows a network.
"""
