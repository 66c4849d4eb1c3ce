//! The queries, each a file of its own.

/// A query of TPC-H with the specification's validation parameters.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// 1 to 22.
    pub number: usize,
    pub name: &'static str,
    /// One statement. Q15's view is a WITH clause; Q11's fraction is that of scale factor 1.
    pub sql: &'static str,
}

/// The `number`th query, from 1.
pub fn query(number: usize) -> Option<&'static Query> {
    QUERIES.get(number.checked_sub(1)?)
}

/// All queries, in order.
pub static QUERIES: [Query; 22] = [
    Query { number: 1, name: "Pricing Summary Report", sql: include_str!("queries/q01.sql") },
    Query { number: 2, name: "Minimum Cost Supplier", sql: include_str!("queries/q02.sql") },
    Query { number: 3, name: "Shipping Priority", sql: include_str!("queries/q03.sql") },
    Query { number: 4, name: "Order Priority Checking", sql: include_str!("queries/q04.sql") },
    Query { number: 5, name: "Local Supplier Volume", sql: include_str!("queries/q05.sql") },
    Query { number: 6, name: "Forecasting Revenue Change", sql: include_str!("queries/q06.sql") },
    Query { number: 7, name: "Volume Shipping", sql: include_str!("queries/q07.sql") },
    Query { number: 8, name: "National Market Share", sql: include_str!("queries/q08.sql") },
    Query { number: 9, name: "Product Type Profit Measure", sql: include_str!("queries/q09.sql") },
    Query { number: 10, name: "Returned Item Reporting", sql: include_str!("queries/q10.sql") },
    Query { number: 11, name: "Important Stock Identification", sql: include_str!("queries/q11.sql") },
    Query { number: 12, name: "Shipping Modes and Order Priority", sql: include_str!("queries/q12.sql") },
    Query { number: 13, name: "Customer Distribution", sql: include_str!("queries/q13.sql") },
    Query { number: 14, name: "Promotion Effect", sql: include_str!("queries/q14.sql") },
    Query { number: 15, name: "Top Supplier", sql: include_str!("queries/q15.sql") },
    Query { number: 16, name: "Parts/Supplier Relationship", sql: include_str!("queries/q16.sql") },
    Query { number: 17, name: "Small-Quantity-Order Revenue", sql: include_str!("queries/q17.sql") },
    Query { number: 18, name: "Large Volume Customer", sql: include_str!("queries/q18.sql") },
    Query { number: 19, name: "Discounted Revenue", sql: include_str!("queries/q19.sql") },
    Query { number: 20, name: "Potential Part Promotion", sql: include_str!("queries/q20.sql") },
    Query { number: 21, name: "Suppliers Who Kept Orders Waiting", sql: include_str!("queries/q21.sql") },
    Query { number: 22, name: "Global Sales Opportunity", sql: include_str!("queries/q22.sql") },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_each_other_and_no_parameter_is_left_open() {
        for (index, query) in QUERIES.iter().enumerate() {
            assert_eq!(query.number, index + 1);
            assert!(query.sql.starts_with(&format!("-- TPC-H Q{}, {}", query.number, query.name)));
            assert!(!query.sql.lines().skip(1).any(|line| line.contains(':')), "{}", query.sql);
        }
        assert!(query(0).is_none() && query(23).is_none());
        assert_eq!(query(22).unwrap().name, "Global Sales Opportunity");
    }
}
