"""Whether two engines gave the same answer.

- Integers, decimals, text and dates are equal, or they are not: decimals of
  different scale are compared by value.
- Where one engine has a decimal and the other a float (averages, quotients),
  a unit in the decimal's last place, or 1e-9 of the value, may lie between
  them; the same 1e-9 between two floats, whose sums depend on the order.
- Rows come in the order of the sort columns. Rows equal in all of them may
  come in any order; and where LIMIT cuts through such a group, any of its
  members may be the ones left.
"""

import decimal

FLOAT_TOLERANCE = 1e-9


def same_value(left, right) -> bool:
    if left is None or right is None:
        return left is right
    if isinstance(left, float) or isinstance(right, float):
        slack = FLOAT_TOLERANCE * max(abs(float(left)), abs(float(right)), 1)
        for value in (left, right):
            if isinstance(value, decimal.Decimal):
                slack = max(slack, 10.0 ** value.as_tuple().exponent)
        return abs(float(left) - float(right)) <= slack
    return left == right


def same_row(left, right) -> bool:
    return len(left) == len(right) and all(map(same_value, left, right))


def difference(ours, theirs, sort_columns, limit) -> str | None:
    """What differs, in words; `None` if nothing does."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, the other engine has {len(theirs)}"
    keys = lambda rows: [[row[column] for column in sort_columns] for row in rows]
    for number, (left, right) in enumerate(zip(keys(ours), keys(theirs))):
        if not same_row(left, right):
            return f"row {number} is sorted under {left}, the other engine has {right}"
    unmatched = list(theirs)
    last = keys(theirs)[-1] if theirs else None
    for row in ours:
        match = next((other for other in unmatched if same_row(row, other)), None)
        if match is not None:
            unmatched.remove(match)
            continue
        cut = limit is not None and len(ours) == limit and sort_columns
        if not (cut and same_row([row[column] for column in sort_columns], last)):
            return f"no row of the other engine is {row}; it has {unmatched[0] if unmatched else None}"
    return None

