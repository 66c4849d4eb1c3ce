//! How many rows there are where nobody has counted: the one table of guesses, and what is made of them.
//!
//! Where a table has statistics, [`Table::selectivity`](crate::Table::selectivity) knows more, and asks here for the
//! rest. No answer depends on them; "chosen" means that nothing was measured.
//!
//! | guess | value | where it comes from |
//! |---|---|---|
//! | rows in an open range, or that pass a condition that is no column test | 1/3 | System R; PostgreSQL |
//! | such conditions that count | 3 | chosen: beyond, they are taken to follow from each other |
//! | pairs that pass a join's condition that is no equality | 1/5 | DataFusion's `default_filter_selectivity` |
//! | pairs that agree in expressions | 1/100 | between PostgreSQL's `DEFAULT_EQ_SEL` (1/200) and System R's 1/10 |
//! | such equalities that count | 2 | chosen, as above |
//! | rows that pass a filter over other than a table | 3/10 | chosen, near 1/3 |
//! | rows that are distinct, have a partner, or have none | 1/2 | chosen: the middle errs least |
//! | groups for each row | 1/5 | chosen |
//! | rows without any partner, at least | 1/20 | chosen: an anti join that somebody writes leaves something |
//! | distinct values of a column, for each row | 1/10, at most 10 000 | System R's 1/10 for an equality, turned round |
//! | place of a value within a bucket of one value | 1/2 | chosen |
//! | rows of an empty range, at least | 1/2 | no histogram is exact enough to promise that there is nothing |
//! | rows of a source of unknown size | 10 000 | chosen: PostgreSQL takes ten pages to be there |
//! | rows of a plan of unknown size | 1 000 000 | chosen: what has no statistics is seldom small |
//! | rows of joined relations, at least | 1/100 | chosen: costs above still tell such sets apart |

/// Share of rows in a range with one end, of values of which nothing is known.
pub const OPEN_RANGE: f64 = 1.0 / 3.0;
/// Where in a bucket whose bounds are equal a value lies.
pub const WITHIN_BUCKET: f64 = 0.5;
/// Rows of a range that seems empty.
pub const EMPTY_RANGE_ROWS: f64 = 0.5;
/// Rows for each distinct value of a column without statistics, and such values at most.
const ROWS_PER_VALUE: f64 = 10.0;
const VALUES_MAX: f64 = 10_000.0;
/// Share of rows that a condition which is no column test is taken to leave.
const CONDITION: f64 = OPEN_RANGE;
/// Conditions whose shares are multiplied; the rest are taken to follow from them.
const CONDITIONS_MAX: usize = 3;
/// Share of pairs that a condition between relations other than an equality leaves.
pub const JOIN_CONDITION: f64 = 0.2;
/// Share of pairs that agree in an expression of which nothing is known.
const EXPRESSION_EQUALITY: f64 = 0.01;
/// Equalities of expressions whose shares are multiplied.
const EXPRESSION_EQUALITIES_MAX: usize = 2;
/// Share of rows that a filter leaves of what is no table.
pub const FILTER: f64 = 0.3;
/// Share of rows that are distinct.
pub const DISTINCT: f64 = 0.5;
/// Share of rows that have a partner, and that have none.
pub const PARTNER: f64 = 0.5;
/// Groups per row.
const GROUPS: f64 = 0.2;
/// Share of rows without a partner, at least.
const ALONE_MIN: f64 = 0.05;
/// Rows of a source of which nothing is known.
pub const SOURCE_ROWS: f64 = 10_000.0;
/// Rows of a plan of which nothing is known.
pub const PLAN_ROWS: f64 = 1e6;
/// Rows of joined relations, at least.
pub const JOINED_ROWS_MIN: f64 = 0.01;

/// Share of rows that so many conditions leave which are no column tests.
pub fn conditions(count: usize) -> f64 {
    CONDITION.powi(count.min(CONDITIONS_MAX) as i32)
}

/// Of so many rows, those that one more condition leaves: at least one.
pub fn filtered(rows: f64) -> f64 {
    (rows * CONDITION).max(1.0)
}

/// Share of pairs of rows that agree in so many expressions of which nothing is known.
pub fn expression_equalities(count: usize) -> f64 {
    EXPRESSION_EQUALITY.powi(count.min(EXPRESSION_EQUALITIES_MAX) as i32)
}

/// Distinct values among so many rows of a column without statistics.
pub fn distinct(rows: f64) -> f64 {
    (rows / ROWS_PER_VALUE).clamp(1.0, VALUES_MAX)
}

/// Groups of so many rows by expressions of which nothing is known.
pub fn groups(rows: f64) -> f64 {
    (rows * GROUPS).max(1.0)
}

/// Of so many rows, those left by an anti join for which `partners` were expected.
pub fn alone(rows: f64, partners: f64) -> f64 {
    (rows - partners).max(rows * ALONE_MIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn more_conditions_leave_fewer_rows_until_they_follow_from_each_other() {
        assert_eq!(conditions(0), 1.0);
        assert!(conditions(1) > conditions(2) && conditions(2) > conditions(3));
        assert_eq!(conditions(3), conditions(30));
        assert_eq!(expression_equalities(0), 1.0);
        assert!(expression_equalities(1) > expression_equalities(2));
        assert_eq!(expression_equalities(2), expression_equalities(9));
    }

    #[test]
    fn an_equality_leaves_less_than_another_condition() {
        assert!(expression_equalities(1) < JOIN_CONDITION);
        const { assert!(JOIN_CONDITION < CONDITION) };
    }

    proptest! {
        #[test]
        fn no_guess_promises_more_rows_than_there_are(rows in 1.0_f64..1e12, partners in 0.0_f64..1e13) {
            let guesses = [filtered(rows), groups(rows), distinct(rows), alone(rows, partners), rows * FILTER];
            for guess in guesses {
                prop_assert!(guess > 0.0 && guess <= rows, "{guess} of {rows}");
            }
        }
    }
}
