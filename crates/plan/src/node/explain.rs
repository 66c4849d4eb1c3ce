//! How plans are shown: a line for each node, and what it adds to it.

use std::fmt::{self, Write};
use std::time::Duration;

use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use super::plan::Plan;
use super::saki_node::find;
use crate::cost::text::seconds;

/// A plan as indented text, with measurements if it has run.
pub fn plan_text(plan: &Plan, analyzed: bool) -> String {
    let mut text = String::new();
    write_node(plan, 0, analyzed, &mut text);
    text
}

fn write_node(plan: &Plan, depth: usize, analyzed: bool, out: &mut String) {
    let indent = "  ".repeat(depth);
    let ours = find(plan.as_ref());
    let _ = write!(out, "{indent}{}", OneLine(plan.as_ref()));
    if analyzed && let Some(metrics) = plan.metrics() {
        let metrics = metrics.aggregate_by_name().sorted_for_display().timestamps_removed();
        let rows = metrics.output_rows().map_or(String::new(), |rows| format!(", rows={rows}"));
        let cpu =
            metrics.elapsed_compute().map_or(String::new(), |nanos| format!(", cpu={}", nanos_text(nanos as u64)));
        let more = ours.and_then(|node| node.measured(&metrics)).map_or(String::new(), |text| format!(", {text}"));
        let _ = write!(out, "{rows}{cpu}{more}");
    }
    out.push('\n');
    if let Some(node) = ours {
        node.write_details(analyzed, &format!("{indent}    "), out);
    }
    for child in plan.children() {
        write_node(child, depth + 1, analyzed, out);
    }
}

/// Nanoseconds with the unit that suits them.
pub fn nanos_text(nanos: u64) -> String {
    seconds(Duration::from_nanos(nanos).as_secs_f64())
}

struct OneLine<'a>(&'a dyn ExecutionPlan);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DisplayAs::fmt_as(self.0, DisplayFormatType::Default, f)
    }
}

#[cfg(test)]
mod tests {
    use saki_base::DataType;
    use saki_base::value::Value;

    use crate::fixture::{Fixture, NoTransaction, TableBuilder};
    use saki_settings::Settings;

    fn fixture() -> Fixture {
        let fixture = Fixture::new();
        let row = |id: i64| vec![Value::Int8(id), Value::Int8(id % 50), Value::Text(format!("{id:0>60}"))];
        let rows: Vec<Vec<Value>> = (0..500).map(row).collect();
        let table = |name: &str| {
            TableBuilder::new(name)
                .column("id", DataType::Int8)
                .column("part", DataType::Int8)
                .column("text", DataType::Text)
                .key(&["id"])
        };
        fixture.load(table("t").index("t_part", &["part"]), &rows).load(table("c").with_segments(), &rows);
        fixture
    }

    fn explained(fixture: &Fixture, sql: &str, changes: &[(&str, &str)], run: bool) -> String {
        let mut settings = Settings { partitions: 1, ..Settings::default() };
        changes.iter().for_each(|(name, value)| settings.set(name, Some(value)).unwrap());
        let env = fixture.env(settings);
        let plan = fixture.plan(&env, sql).track(&mut NoTransaction).unwrap();
        if run {
            fixture.run(&env, &plan);
        }
        plan.text(run)
    }

    #[test]
    fn a_scan_says_its_path_and_what_is_expected() {
        let fixture = fixture();
        let text = explained(&fixture, "SELECT text FROM t WHERE id = 7", &[], false);
        assert!(text.contains("PageScanExec: t by primary key, 1 key: id = 7, est_rows=1, est_seconds="), "{text}");
        let text = explained(&fixture, "SELECT id FROM t WHERE part = 7", &[("access_path", "index")], false);
        assert!(text.contains("PageScanExec: t by index t_part, index only, 1 range: part = 7, est_rows=10"), "{text}");
        let text = explained(
            &fixture,
            "SELECT id FROM c WHERE part > 40 AND id % 2 = 0",
            &[("access_path", "columns")],
            false,
        );
        assert!(
            text.contains("ColumnScanExec: c, 8 segments, columns [id], where part > 40 AND id@0 % 2 = 0"),
            "{text}"
        );
    }

    #[test]
    fn conditions_are_shown_at_their_stage() {
        let fixture = fixture();
        let text = explained(&fixture, "SELECT text FROM t WHERE id < 50 AND part <> 3 AND id < part", &[], false);
        assert!(text.contains("    stage 0: read t, where part <> 3 AND"), "{text}");
    }

    #[test]
    fn lookups_say_by_what_they_look() {
        let fixture = fixture();
        let sql = "SELECT c.id, t.part FROM c JOIN t ON t.id = c.part WHERE c.id < 9";
        let text = explained(&fixture, sql, &[("index_join", "always")], false);
        assert!(text.contains("IndexJoinExec:") && text.contains("stage 1: join t on id = part"), "{text}");
        let sql = "SELECT c.id FROM c WHERE EXISTS (SELECT 1 FROM t WHERE t.part = c.id)";
        let text = explained(&fixture, sql, &[("index_join", "always")], false);
        assert!(text.contains("stage 1: semi join t.t_part on part = id"), "{text}");
    }

    #[test]
    fn a_plan_that_has_run_says_what_it_did() {
        let fixture = fixture();
        let text = explained(&fixture, "SELECT text FROM t WHERE id < 50", &[("access_path", "index")], true);
        assert!(text.contains(", rows=50, cpu="), "{text}");
        assert!(text.contains("      probes=") && text.contains(" pages_read=") && text.contains("io_wait="), "{text}");
        let sql = "SELECT count(*) FROM c JOIN c d ON c.id = d.part";
        let text = explained(&fixture, sql, &[("index_join", "never"), ("access_path", "columns")], true);
        assert!(text.contains("build=[rows=500 bytes="), "{text}");
    }

    #[test]
    fn a_scan_that_looked_keys_up_instead_says_so() {
        let fixture = Fixture::new();
        let wide = |id: i64| vec![Value::Int8(id), Value::Text(format!("{id:0>900}"))];
        let table = TableBuilder::new("big").column("id", DataType::Int8).column("text", DataType::Text).key(&["id"]);
        fixture.load(table.with_segments(), &(0..4000).map(wide).collect::<Vec<_>>());
        let table = TableBuilder::new("few").column("id", DataType::Int8).column("b", DataType::Int8).key(&["id"]);
        fixture.load(table.with_segments(), &[vec![Value::Int8(1), Value::Int8(2000)]]);
        let sql = "SELECT big.text FROM few JOIN big ON few.b = big.id WHERE few.id < 10";
        let columns = [("index_join", "never"), ("access_path", "columns")];
        let text = explained(&fixture, sql, &columns, true);
        assert!(text.contains("looked up 1 keys by big by primary key instead of scanning"), "{text}");
        let forbidden = [&columns[..], &[("adaptive_lookups", "off")]].concat();
        let text = explained(&fixture, sql, &forbidden, true);
        assert!(!text.contains("looked up"), "{text}");
    }
}
