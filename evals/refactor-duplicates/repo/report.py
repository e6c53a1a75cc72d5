"""Lines of a report."""


def sales_line(name, amount):
    text = name.strip().title()
    if len(text) > 20:
        text = text[:17] + "..."
    dots = "." * (30 - len(text))
    return f"{text} {dots} {amount:>10,.2f} EUR"


def cost_line(name, amount):
    text = name.strip().title()
    if len(text) > 20:
        text = text[:17] + "..."
    dots = "." * (30 - len(text))
    return f"{text} {dots} {-amount:>10,.2f} EUR"


def total_line(name, amount):
    text = name.strip().title()
    if len(text) > 20:
        text = text[:17] + "..."
    dots = "." * (30 - len(text))
    return f"{text} {dots} {amount:>10,.2f} EUR".upper()
