import calendar

from calendar_days import days_in_month
from eval_run import answer

for year in range(1600, 2401):
    for month in range(1, 13):
        expected = calendar.monthrange(year, month)[1]
        assert days_in_month(year, month) == expected, (year, month)
assert "400" in answer or "2000" in answer, "the answer does not name the years"
