"""The event bus: events are stamped once, committed before delivery, and no subscriber blocks another."""
