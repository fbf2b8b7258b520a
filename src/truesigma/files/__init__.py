"""Everything that touches a disk: one file of cases, sets of files, files read in pieces, images.

Paths come in; `Cases`, `Draws`, images and plain tables go out, or an error that names the file. What is written
appears whole or not at all.
"""
