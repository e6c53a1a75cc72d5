"""The event bus: events are stamped once, committed before delivery, and no subscriber blocks another.

Also the clock and the metrics of a session. What events there are is in `protocol`.
"""
