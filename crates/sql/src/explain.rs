//! How plans are shown: the path to the rows, each stage with its conditions, the expected rows
//! and seconds, and after a run what every stage really did.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use saki_exec::plan::JoinKind;
use saki_exec::predicate::Predicate;
use saki_exec::{RunMetrics, StageMetrics};

use crate::access::TableAccess;
use crate::catalog::Table;
use crate::chain::{Chain, ColumnRef, Link, LinkKey, Origin};
use crate::column_scan::ColumnScanExec;
use crate::column_test::ColumnTest;
use crate::columns::value_literal;
use crate::key_range::op_text;
use crate::native::NativeHashJoinExec;
use crate::path::Path;
use crate::pipeline_exec::PipelineExec;

/// A path in words.
pub fn path_text(path: &Path) -> String {
    let access = &path.access;
    let tree = access.describe();
    let only = if access.index.is_some() && !path.fetches_primary { ", index only" } else { "" };
    match &path.bounds {
        None if access.index.is_none() => format!("{}, all {} leaf pages", access.table.name, access.tree.leaf_pages),
        None => format!("{tree}{only}, all {} leaf pages", access.tree.leaf_pages),
        Some(bounds) => {
            let ranges = match bounds.ranges.len() {
                1 if bounds.points => "1 key".into(),
                1 => "1 range".into(),
                n if bounds.points => format!("{n} keys"),
                n => format!("{n} ranges"),
            };
            format!("{tree}{only}, {ranges}: {}", bounds.text)
        }
    }
}

/// One line for a node: what DataFusion's own EXPLAIN and debug output show.
pub fn describe_line(exec: &PipelineExec, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{}: {}", exec.name(), summary(exec))
}

fn summary(exec: &PipelineExec) -> String {
    let mut text = match &exec.chain.origin {
        Origin::Ranges { .. } if !exec.path.is_empty() => exec.path.clone(),
        Origin::Ranges { access, .. } => access.tree.name.clone(),
        Origin::Rows { .. } => "rows of the plan below".into(),
    };
    for link in &exec.chain.links {
        let _ = write!(text, " -> {}", link.access.tree.name);
    }
    if let Some(limit) = exec.chain.limit {
        let _ = write!(text, ", limit {limit}");
    }
    let _ = write!(text, ", est_rows={}, est_seconds={}", count(exec.estimate.rows), seconds(exec.estimate.seconds));
    text
}

/// A plan as indented text, with measurements if it has run.
pub fn plan_text(plan: &Arc<dyn ExecutionPlan>, analyzed: bool) -> String {
    let mut text = String::new();
    write_node(plan, 0, analyzed, &mut text);
    text
}

fn write_node(plan: &Arc<dyn ExecutionPlan>, depth: usize, analyzed: bool, out: &mut String) {
    let indent = "  ".repeat(depth);
    let _ = write!(out, "{indent}{}", OneLine(plan.as_ref()));
    if analyzed && let Some(metrics) = plan.metrics() {
        let metrics = metrics.aggregate_by_name().sorted_for_display().timestamps_removed();
        let rows = metrics.output_rows().map_or(String::new(), |rows| format!(", rows={rows}"));
        let cpu = metrics.elapsed_compute().map_or(String::new(), |nanos| {
            format!(", cpu={}", seconds(Duration::from_nanos(nanos as u64).as_secs_f64()))
        });
        let _ = write!(out, "{rows}{cpu}");
        if plan.is::<NativeHashJoinExec>() {
            let _ = write!(out, ", {}", build_text(&metrics));
        }
    }
    out.push('\n');
    if let Some(exec) = plan.downcast_ref::<PipelineExec>() {
        let metrics = exec.run().filter(|_| analyzed).map(|run| run.metrics());
        write_stages(exec, &format!("{indent}    "), metrics, out);
    }
    if let Some(exec) = plan.downcast_ref::<ColumnScanExec>().filter(|_| analyzed) {
        exec.write_measured(&format!("{indent}    "), out);
    }
    for child in plan.children() {
        write_node(child, depth + 1, analyzed, out);
    }
}

/// What a hash join says of its table.
fn build_text(metrics: &MetricsSet) -> String {
    let sum = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize());
    let (rows, bytes) = (sum("build_rows"), sum("build_bytes"));
    let time = seconds(Duration::from_nanos(sum("build_time") as u64).as_secs_f64());
    format!("build=[rows={rows} bytes={bytes} cpu={time}]")
}

struct OneLine<'a>(&'a dyn ExecutionPlan);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DisplayAs::fmt_as(self.0, DisplayFormatType::Default, f)
    }
}

/// The stages of a pipeline that has run.
pub fn write_run(exec: &PipelineExec, indent: &str, out: &mut String) {
    write_stages(exec, indent, exec.run().map(|run| run.metrics()), out);
}

fn write_stages(exec: &PipelineExec, indent: &str, metrics: Option<&RunMetrics>, out: &mut String) {
    let chain = &exec.chain;
    for depth in 0..=chain.links.len() {
        let (title, predicates, access) = match (depth, &chain.origin) {
            (0, Origin::Ranges { access, predicates, .. }) => ("read", predicates.as_slice(), Some(access)),
            (0, Origin::Rows { .. }) => ("outer rows", [].as_slice(), None),
            _ => {
                let link = &chain.links[depth - 1];
                (kind_text(link), link.predicates.as_slice(), Some(&link.access))
            }
        };
        let mut conditions: Vec<String> = Vec::new();
        if let Some(access) = access {
            conditions.extend(predicates.iter().map(|placed| predicate_text(&placed.predicate(), access)));
        }
        conditions.extend(chain.filters_at(depth).map(|filter| filter.condition.to_string()));
        let measured = metrics.and_then(|metrics| metrics.stages.get(depth));
        // A source without conditions says nothing that the node's own line does not.
        if depth == 0 && conditions.is_empty() && measured.is_none() {
            continue;
        }
        let _ = write!(out, "{indent}stage {depth}: {title}");
        if let Some(access) = access {
            let _ = write!(out, " {}", access.tree.name);
        }
        if depth > 0 {
            let _ = write!(out, " on {}", key_text(chain, &chain.links[depth - 1]));
        }
        if !conditions.is_empty() {
            let _ = write!(out, ", where {}", conditions.join(" AND "));
        }
        out.push('\n');
        if let Some(stage) = measured {
            let _ = writeln!(out, "{indent}  {}", stage_text(stage));
        }
    }
    if let Some(metrics) = metrics {
        let _ = writeln!(out, "{indent}{}", run_text(metrics));
    }
}

fn kind_text(link: &Link) -> &'static str {
    match (link.completes_previous, link.kind) {
        (true, _) => "fetch",
        (false, JoinKind::Inner) => "join",
        (false, JoinKind::Left) => "left join",
        (false, JoinKind::Semi) => "semi join",
        (false, JoinKind::Anti) => "anti join",
    }
}

fn key_text(chain: &Chain, link: &Link) -> String {
    let part = |(position, key): (usize, &LinkKey)| {
        let name = &link.access.tree.columns[position].name;
        match key {
            LinkKey::Column(column) => format!("{name} = {}", column_text(chain, *column)),
            LinkKey::Constant(constant) => format!("{name} = {}", constant.text()),
        }
    };
    link.key.iter().enumerate().map(part).collect::<Vec<_>>().join(", ")
}

fn column_text(chain: &Chain, column: ColumnRef) -> String {
    match (chain.access(column.depth), &chain.origin) {
        (Some(access), _) => {
            let name = &access.tree.columns[column.column].name;
            format!("{}.{name}", access.table.name)
        }
        (None, Origin::Rows { schema }) => schema.field(column.column).name().clone(),
        (None, Origin::Ranges { .. }) => format!("column {}", column.column),
    }
}

/// A test of a column of `table`.
pub fn test_text(test: &ColumnTest, table: &Arc<Table>) -> String {
    let primary = TableAccess::primary(table);
    let position = primary.position(test.column).expect("the primary tree has every column");
    predicate_text(&test.predicate(position), &primary)
}

fn predicate_text(predicate: &Predicate, access: &TableAccess) -> String {
    let column = |index: &usize| &access.tree.columns[*index];
    match predicate {
        Predicate::Compare { column: index, op, value } => {
            let column = column(index);
            format!("{} {} {}", column.name, op_text(*op), value_literal(value, column.data_type))
        }
        Predicate::OneOf { column: index, values, negated } => {
            let column = column(index);
            let list: Vec<String> = values.iter().take(8).map(|v| value_literal(v, column.data_type)).collect();
            let more = if values.len() > 8 { format!(", … {} in all", values.len()) } else { String::new() };
            format!("{}{} IN ({}{more})", column.name, if *negated { " NOT" } else { "" }, list.join(", "))
        }
        Predicate::IsNull { column: index } => format!("{} IS NULL", column(index).name),
        Predicate::IsNotNull { column: index } => format!("{} IS NOT NULL", column(index).name),
    }
}

fn stage_text(stage: &StageMetrics) -> String {
    let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    format!(
        "probes={} visits={} pages_read={} cached={} shared={} bytes={} rows={}",
        get(&stage.probes),
        get(&stage.visits),
        get(&stage.pages_read),
        get(&stage.pages_cached),
        get(&stage.pages_shared),
        get(&stage.bytes_read),
        get(&stage.rows)
    )
}

fn run_text(metrics: &RunMetrics) -> String {
    let nanos = |counter: &std::sync::atomic::AtomicU64| {
        seconds(Duration::from_nanos(counter.load(Ordering::Relaxed)).as_secs_f64())
    };
    let mut text = format!(
        "io_wait={} cpu={} depth_mean={:.1} depth_max={}",
        nanos(&metrics.wait_nanos),
        nanos(&metrics.cpu_nanos),
        metrics.depth_mean(),
        metrics.depth_max.load(Ordering::Relaxed)
    );
    let total: u64 = metrics.depth_nanos.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum();
    let shares = metrics.depth_nanos.iter().enumerate().filter_map(|(bucket, nanos)| {
        let share = nanos.load(Ordering::Relaxed) as f64 / total.max(1) as f64;
        let from = if bucket == 0 { 0 } else { 1_u64 << (bucket - 1) };
        (share >= 0.005).then(|| format!("{from}+: {:.0}%", share * 100.0))
    });
    let shares: Vec<String> = shares.collect();
    if !shares.is_empty() {
        let _ = write!(text, " depth=[{}]", shares.join(", "));
    }
    text
}

/// A duration with the unit that suits it.
pub fn seconds(value: f64) -> String {
    match value {
        v if v >= 1.0 => format!("{v:.2}s"),
        v if v >= 1e-3 => format!("{:.1}ms", v * 1e3),
        v => format!("{:.0}us", v * 1e6),
    }
}

/// A number of rows, rounded up.
pub fn count(rows: f64) -> String {
    if rows >= 1e15 { format!("{rows:.1e}") } else { format!("{:.0}", rows.ceil()) }
}
