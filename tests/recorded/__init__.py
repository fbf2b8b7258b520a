"""What a user sees, recorded: thousands of Python calls and hundreds of commands, to compare a change with.

    python -m tests.recorded compare                    # all parts against the committed values; 1 if anything differs
    python -m tests.recorded compare --only metrics     # one part; `parts` lists them
    python -m tests.recorded compare --base ../other    # against another checkout, recorded in the same run
    python -m tests.recorded show evaluate LABEL        # one entry in full, to be compared by eye
    python -m tests.recorded record                     # write values/ anew, and say what was not reached
    python -m tests.recorded ids                        # are all tests of the recorded list still there?

Numbers are kept as numbers, text as digests (its words apart from its numbers), errors by their type. Times, versions
and folders are left out. A key or a file that is new beside the others is told, and is not a difference. Calls use
documented names alone, so that the same recorder runs before and after a move.
"""
