"""Lists of plug-ins on the command line, such as `none,sigma:part=aleatoric,aux:hidden=4,steps=500`."""

from ._session import Session


def split_choices(text: str) -> list[str]:
    """Split a comma list; an item with `=` and no `:` continues the options of the one before.

    >>> split_choices("none,aux:hidden=4,steps=500,sigma")
    ['none', 'aux:hidden=4,steps=500', 'sigma']
    """
    found: list[str] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        if "=" not in item or ":" in item:
            found.append(item)
        elif not found:
            raise ValueError(
                f"{text!r} begins with the option {item!r}; expected a name first, as in sigma:{item}."
            )
        else:
            found[-1] += ("," if ":" in found[-1] else ":") + item
    if not found:
        raise ValueError(f"{text!r} names nothing; expected a comma list such as none,sigma.")
    return list(dict.fromkeys(found))


def with_part(choices: list[str], part: str) -> tuple[list[str], list[str]]:
    """Give `part` to each recalibration that takes it and has none; name those that do not take it.

    >>> with_part(["none", "sigma:part=total"], "aleatoric")
    (['none:part=aleatoric', 'sigma:part=total'], [])
    """
    from ..core import plugins

    if part not in ("total", "aleatoric"):
        raise ValueError(f"part is {part!r}; expected total or aleatoric.")
    found, without = [], []
    for choice in choices:
        name, module, options = plugins.parse("recalibrate", choice)
        takes = "part" in plugins.options("recalibrate", module)
        if part != "total" and not takes:
            without.append(name)
        add = part != "total" and takes and "part" not in options
        found.append(choice + ("," if options else ":") + f"part={part}" if add else choice)
    return found, without


def recalibrations(session: Session, text: str, part: str) -> list[str]:
    """Split a comma list and give each choice its part, with a note for each that takes none."""
    choices, without = with_part(split_choices(text), part)
    for name in without:
        session.say(f"note: {name} has no option part and is fitted on the total.")
    return choices


def split_levels(texts: list[str]) -> list[float]:
    """Read levels from `--level 0.5,0.9 --level 0.99`.

    >>> split_levels(["0.5,0.9", "0.99"])
    [0.5, 0.9, 0.99]
    """
    from ..core.checks import check_level

    found = []
    for text in ",".join(texts).split(","):
        try:
            found.append(float(text))
        except ValueError:
            raise ValueError(f"level is {text!r}; expected numbers such as 0.5,0.9.") from None
        check_level(found[-1])
    return list(dict.fromkeys(found))
