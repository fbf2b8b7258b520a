"""The sections of a report, one file each: `section(...)` gives what is shown and the table behind it."""
