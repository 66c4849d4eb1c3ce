//! How a scan of segments is shown.

use std::fmt::Write;

use super::parts::ColumnScanParts;
use super::source::Chosen;
use crate::access::text::test_text;
use crate::node::SakiNode;

/// What follows the node's name on its line: the table, the columns, the conditions, and what is expected.
pub fn summary(parts: &ColumnScanParts) -> String {
    let (scan, table) = (&parts.scan, &parts.scan.table);
    let mut text = format!("{}, {} segments", table.name, parts.segments.segments.len());
    let _ = write!(text, ", columns [{}]", table.names(&scan.columns));
    let tests = scan.tests.iter().map(|test| test_text(test, table));
    let conditions: Vec<String> = tests.chain(scan.rest.iter().map(ToString::to_string)).collect();
    if !conditions.is_empty() {
        let _ = write!(text, ", where {}", conditions.join(" AND "));
    }
    if !parts.keys.is_empty() {
        let keys: Vec<&str> = parts.keys.iter().map(|(_, keys)| keys.condition()).collect();
        let _ = write!(text, ", keys [{}]", keys.join(", "));
    }
    if let Some(limit) = parts.limit {
        let _ = write!(text, ", limit {limit}");
    }
    let _ = write!(text, ", {}", parts.estimate);
    text
}

/// What the scan did, on lines of their own.
pub fn write_measured(chosen: &Chosen, indent: &str, out: &mut String) {
    match chosen {
        Chosen::Scan(execution) => {
            let _ = writeln!(out, "{indent}{}", execution.metrics());
        }
        Chosen::Lookup(lookup) => {
            let _ = writeln!(out, "{indent}{}", lookup.text);
            lookup.pipeline.write_details(true, indent, out);
        }
    }
}
