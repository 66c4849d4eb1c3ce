//! What a plan of PostgreSQL reads of each relation, by its `EXPLAIN (FORMAT JSON)`.

use std::collections::BTreeMap;

use serde_json::Value;

/// Reads of a table or index.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reads {
    /// Scans from end to end.
    pub scans: f64,
    /// Rows or entries that are looked for, each by itself.
    pub lookups: f64,
}

/// By relation. With `ANALYZE` in the plan by what was found, or else by what the planner expected.
///
/// # Errors
/// If it is no plan, or one without relations.
pub fn of_plan(text: &str) -> Result<BTreeMap<String, Reads>, String> {
    let parsed: Value = serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
    let plan = parsed.get(0).and_then(|first| first.get("Plan"));
    let plan = plan.ok_or("is no output of EXPLAIN (FORMAT JSON): it has no \"Plan\"")?;
    let mut reads = BTreeMap::new();
    add(plan, 1.0, &mut reads);
    match reads.is_empty() {
        true => Err("reads no relation".to_owned()),
        false => Ok(reads),
    }
}

/// Adds a node that is run so many times, and those below it.
fn add(node: &Value, runs: f64, reads: &mut BTreeMap<String, Reads>) {
    let text = |name: &str| node.get(name).and_then(Value::as_str);
    let number = |name: &str| node.get(name).and_then(Value::as_f64);
    let runs = number("Actual Loops").unwrap_or(runs);
    let rows = number("Actual Rows").or_else(|| number("Plan Rows")).unwrap_or(0.0);
    let kind = text("Node Type").unwrap_or_default();
    let is_read = kind.ends_with("Scan");
    if let Some(relation) = text("Relation Name").filter(|_| is_read && kind != "Index Only Scan") {
        let of_relation = reads.entry(relation.to_owned()).or_default();
        match kind {
            "Seq Scan" | "Sample Scan" => of_relation.scans += runs,
            _ => of_relation.lookups += rows * runs,
        }
    }
    if let Some(index) = text("Index Name").filter(|_| is_read) {
        // Entries of one run lie side by side.
        reads.entry(index.to_owned()).or_default().lookups += runs;
    }
    let children = node.get("Plans").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let outer = children.iter().find(|child| relationship(child) == "Outer");
    let outer_rows = outer.and_then(|outer| outer.get("Plan Rows")).and_then(Value::as_f64).unwrap_or(1.0);
    for child in children {
        let runs_of_child = match (kind, relationship(child)) {
            ("Nested Loop", "Inner") if !is_kept(child) => runs * outer_rows,
            (_, "SubPlan") => runs * rows.max(1.0),
            _ => runs,
        };
        add(child, runs_of_child, reads);
    }
}

fn relationship(node: &Value) -> &str {
    node.get("Parent Relationship").and_then(Value::as_str).unwrap_or_default()
}

/// Whether its rows are kept, and it runs once.
fn is_kept(node: &Value) -> bool {
    matches!(node.get("Node Type").and_then(Value::as_str), Some("Materialize" | "Hash"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of PostgreSQL 15.
    const PLAN: &str = include_str!("../../../../tests/cli/postgres/plan.json");

    #[test]
    fn scans_and_lookups_are_told_apart_and_inner_sides_run_as_often_as_outer_rows() {
        let reads = of_plan(PLAN).unwrap();
        let expected = [
            ("lineitem", Reads { scans: 0.0, lookups: 52.0 }),
            ("lineitem_pkey", Reads { scans: 0.0, lookups: 13.0 }),
            ("orders", Reads { scans: 0.0, lookups: 515.0 }),
            ("orders_custkey", Reads { scans: 0.0, lookups: 1.0 }),
            ("region", Reads { scans: 1.0, lookups: 0.0 }),
        ];
        assert_eq!(reads, expected.into_iter().map(|(name, reads)| (name.to_owned(), reads)).collect());
    }

    #[test]
    fn what_was_found_counts_before_what_was_expected() {
        let measured = PLAN
            .replace("\"Index Name\": \"lineitem_pkey\"", "\"Index Name\": \"lineitem_pkey\", \"Actual Loops\": 500")
            .replace("\"Plan Rows\": 4,", "\"Plan Rows\": 4, \"Actual Rows\": 7,");
        assert_eq!(of_plan(&measured).unwrap()["lineitem"].lookups, 3500.0);
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        for (text, part) in [("", "no JSON"), ("[]", "no output of EXPLAIN"), ("[{\"Plan\": {}}]", "no relation")] {
            let error = of_plan(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
