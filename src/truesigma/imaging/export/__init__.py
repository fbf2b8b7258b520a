"""One file to ship: network, draws, recalibration and units as ONNX, checked against torch before it is kept.

A network and a card come in; an ONNX file with its metadata goes out.
"""
