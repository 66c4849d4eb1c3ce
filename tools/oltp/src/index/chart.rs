//! The outcome as charts: one for each size of keys, a line for each structure over the workloads.

use saki_report::Report;

use crate::chart::ChartData;

/// Charts of a report that [`super::run`] made, of its measurements with one thread.
pub fn charts(report: &Report) -> Vec<ChartData> {
    let mut charts: Vec<(u64, ChartData)> = Vec::new();
    let mut workloads: Vec<String> = Vec::new();
    for row in report.rows.iter().filter(|row| row["threads"] == 1) {
        let (Some(bytes), Some(per_core)) = (row["key_bytes"].as_u64(), row["per_core"].as_f64()) else { continue };
        let (workload, structure) = (text(&row["workload"]), text(&row["structure"]));
        let x = workloads.iter().position(|known| *known == workload).unwrap_or_else(|| {
            workloads.push(workload);
            workloads.len() - 1
        });
        if !charts.iter().any(|(known, _)| *known == bytes) {
            let mut chart =
                ChartData::new(format!("Ordered indexes, keys of {bytes} bytes"), "", "operations per second per core");
            chart.y_log = true;
            charts.push((bytes, chart));
        }
        let chart = charts.iter_mut().find(|(known, _)| *known == bytes).expect("made above");
        chart.1.point(&structure, (x + 1) as f64, per_core);
    }
    let names: Vec<_> = (1..).zip(&workloads).map(|(number, name): (usize, _)| format!("{number} {name}")).collect();
    charts
        .into_iter()
        .map(|(_, mut chart)| {
            chart.x_label = names.join(", ");
            chart
        })
        .collect()
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
