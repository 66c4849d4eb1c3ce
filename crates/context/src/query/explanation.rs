//! What EXPLAIN answers: lines of text, or one JSON document.

use std::sync::Arc;

use arrow_array::{ArrayRef, LargeBinaryArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{AnalyzeFormat, AnalyzeFormatKind};
use serde_json::{Value, json};

use crate::statement::StatementResult;
use saki_catalog::Result;

/// A plan's text, two blanks for each level, and what is said of it below.
pub struct Explanation {
    pub plan: String,
    pub notes: Vec<String>,
}

/// The column of an explanation: a text for each line, or one `json`.
pub fn schema(format: Option<&AnalyzeFormatKind>) -> SchemaRef {
    let data_type = if is_json(format) { DataType::LargeBinary } else { DataType::Utf8 };
    Arc::new(Schema::new(vec![Field::new("QUERY PLAN", data_type, false)]))
}

impl Explanation {
    /// # Errors
    /// None that is known.
    pub fn answer(&self, format: Option<&AnalyzeFormatKind>) -> Result<StatementResult> {
        let schema = schema(format);
        let array: ArrayRef = match is_json(format) {
            true => Arc::new(LargeBinaryArray::from_iter_values([format!("{:#}", self.document())])),
            false => {
                let lines = self.plan.lines().chain(self.notes.iter().map(String::as_str));
                Arc::new(StringArray::from(lines.collect::<Vec<_>>()))
            }
        };
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array])?;
        Ok(StatementResult::of_batch(schema, batch))
    }

    /// As PostgreSQL's: a list of one object that has the root under `Plan`, and a node's inputs under its `Plans`.
    fn document(&self) -> Value {
        let lines: Vec<(usize, &str)> = self.plan.lines().map(|line| (depth(line), line.trim_start())).collect();
        let mut plans = nodes(&lines);
        let mut document = json!({ "Plan": if plans.is_empty() { Value::Null } else { plans.remove(0) } });
        if !self.notes.is_empty() {
            document["Notes"] = json!(self.notes);
        }
        json!([document])
    }
}

fn is_json(format: Option<&AnalyzeFormatKind>) -> bool {
    let (AnalyzeFormatKind::Keyword(form) | AnalyzeFormatKind::Assignment(form)) = match format {
        Some(format) => format,
        None => return false,
    };
    matches!(form, AnalyzeFormat::JSON)
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The nodes at the depth of the first line, each with those that stand deeper behind it.
fn nodes(lines: &[(usize, &str)]) -> Vec<Value> {
    let mut nodes = Vec::new();
    let mut rest = lines;
    while let Some(((depth, line), after)) = rest.split_first() {
        let inputs = after.iter().take_while(|(deeper, _)| deeper > depth).count();
        let (kind, details) = line.split_once(": ").unwrap_or((line, ""));
        let mut node = json!({ "Node Type": kind });
        if !details.is_empty() {
            node["Details"] = json!(details);
        }
        if inputs > 0 {
            node["Plans"] = Value::Array(self::nodes(&after[..inputs]));
        }
        nodes.push(node);
        rest = &after[inputs..];
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_nodes_by_their_depth() {
        let plan = "Join: a = b\n  Scan: x\n    Read\n  Scan: y".to_owned();
        let explained = Explanation { plan, notes: vec!["3 rows".to_owned()] };
        let scan = |of: &str| json!({ "Node Type": "Scan", "Details": of });
        let mut first = scan("x");
        first["Plans"] = json!([{ "Node Type": "Read" }]);
        let join = json!({ "Node Type": "Join", "Details": "a = b", "Plans": [first, scan("y")] });
        assert_eq!(explained.document(), json!([{ "Plan": join, "Notes": ["3 rows"] }]));
        let empty = Explanation { plan: String::new(), notes: Vec::new() };
        assert_eq!(empty.document(), json!([{ "Plan": null }]));
    }
}
