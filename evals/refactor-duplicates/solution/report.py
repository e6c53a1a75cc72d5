"""Lines of a report."""


def sales_line(name, amount):
    return _line(name, amount)


def cost_line(name, amount):
    return _line(name, -amount)


def total_line(name, amount):
    return _line(name, amount).upper()


def _line(name, amount):
    text = name.strip().title()
    if len(text) > 20:
        text = text[:17] + "..."
    dots = "." * (30 - len(text))
    return f"{text} {dots} {amount:>10,.2f} EUR"
