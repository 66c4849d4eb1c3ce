//! How a scan of segments is shown.

use std::fmt::{self, Write};

use super::ColumnScanExec;
use super::source::Chosen;
use crate::explain::{count, seconds, test_text};

/// One line: the table, the columns, the conditions, and what is expected.
pub fn describe(exec: &ColumnScanExec, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let parts = &exec.parts;
    let (scan, table) = (&parts.scan, &parts.scan.table);
    write!(f, "ColumnScanExec: {}, {} segments", table.name, parts.segments.segments.len())?;
    write!(f, ", columns [{}]", table.names(&scan.columns))?;
    let tests = scan.tests.iter().map(|test| test_text(test, table));
    let conditions: Vec<String> = tests.chain(scan.rest.iter().map(ToString::to_string)).collect();
    if !conditions.is_empty() {
        write!(f, ", where {}", conditions.join(" AND "))?;
    }
    if !parts.keys.is_empty() {
        let keys: Vec<&str> = parts.keys.iter().map(|(_, keys)| keys.condition()).collect();
        write!(f, ", keys [{}]", keys.join(", "))?;
    }
    if let Some(limit) = parts.limit {
        write!(f, ", limit {limit}")?;
    }
    write!(f, ", est_rows={}, est_seconds={}", count(parts.estimate.rows), seconds(parts.estimate.seconds))
}

/// What the scan did, on lines of their own.
pub fn write_measured(exec: &ColumnScanExec, indent: &str, out: &mut String) {
    match exec.source.chosen() {
        Some(Chosen::Scan(run)) => {
            let _ = writeln!(out, "{indent}{}", run.metrics());
        }
        Some(Chosen::Lookup(lookup)) => {
            let _ = writeln!(out, "{indent}{}", lookup.text);
            crate::explain::write_run(&lookup.pipeline, indent, out);
        }
        None => {}
    }
}
