"""A sigma for a network that is trained already, one method a file.

`fit(net, train, held, *, options)` returns what is learned, as arrays by name; its arguments say what it needs: batches
the network was trained on, batches it has not seen, and `patient` of these. `predict(net, batches, learned)` gives
`Draws` or a `Prediction`. The network stays as it was; `truesigma.imaging.fit_sigma` calls both by name.
"""
