//! How a pipeline is shown: the path to the rows, each stage with its conditions, and after a run what every stage
//! really did.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use saki_exec::plan::JoinKind;
use saki_exec::{ExecutionMetrics, StageMetrics};

use crate::access::chain::{Chain, ColumnRef, Link, LinkKey, Origin};
use crate::access::text::predicate_text;
use crate::cost::Estimate;
use crate::node::explain::nanos_text;

/// What follows the node's name on its line: `path` is how the chain's origin is read, in words.
pub fn summary(chain: &Chain, path: &str, estimate: Estimate) -> String {
    let mut text = match &chain.origin {
        Origin::Ranges { .. } if !path.is_empty() => path.to_owned(),
        Origin::Ranges { access, .. } => access.tree.name.clone(),
        Origin::Rows { .. } => "rows of the plan below".into(),
    };
    for link in &chain.links {
        let _ = write!(text, " -> {}", link.access.tree.name);
    }
    if let Some(limit) = chain.limit {
        let _ = write!(text, ", limit {limit}");
    }
    let _ = write!(text, ", {estimate}");
    text
}

/// Each stage on lines of its own, with what it did if it has run.
pub fn write_stages(chain: &Chain, metrics: Option<&ExecutionMetrics>, indent: &str, out: &mut String) {
    for step in 0..=chain.links.len() {
        let (title, predicates, access) = match (step, &chain.origin) {
            (0, Origin::Ranges { access, predicates, .. }) => ("read", predicates.as_slice(), Some(access)),
            (0, Origin::Rows { .. }) => ("outer rows", [].as_slice(), None),
            _ => {
                let link = &chain.links[step - 1];
                (kind_text(link), link.predicates.as_slice(), Some(&link.access))
            }
        };
        let mut conditions: Vec<String> = Vec::new();
        if let Some(access) = access {
            conditions.extend(predicates.iter().map(|placed| predicate_text(&placed.predicate(), access)));
        }
        conditions.extend(chain.filters_at(step).map(|filter| filter.condition.to_string()));
        let measured = metrics.and_then(|metrics| metrics.stages.get(step));
        // A source without conditions says nothing that the node's own line does not.
        if step == 0 && conditions.is_empty() && measured.is_none() {
            continue;
        }
        let _ = write!(out, "{indent}stage {step}: {title}");
        if let Some(access) = access {
            let _ = write!(out, " {}", access.tree.name);
        }
        if step > 0 {
            let _ = write!(out, " on {}", key_text(chain, &chain.links[step - 1]));
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
        let _ = writeln!(out, "{indent}{}", execution_text(metrics));
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
    match (chain.access(column.step), &chain.origin) {
        (Some(access), _) => {
            let name = &access.tree.columns[column.column].name;
            format!("{}.{name}", access.table.name)
        }
        (None, Origin::Rows { schema }) => schema.field(column.column).name().clone(),
        (None, Origin::Ranges { .. }) => format!("column {}", column.column),
    }
}

fn stage_text(stage: &StageMetrics) -> String {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
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

fn execution_text(metrics: &ExecutionMetrics) -> String {
    let nanos = |counter: &AtomicU64| nanos_text(counter.load(Ordering::Relaxed));
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
