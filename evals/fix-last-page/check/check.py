from paging import page, page_count

for items in range(0, 40):
    for size in range(1, 9):
        expected = len(range(0, items, size))
        assert page_count(items, size) == expected, f"page_count({items}, {size}) is not {expected}"
assert page([1, 2, 3, 4, 5], 2, 2) == [3, 4]
