//! Every benchmark in its small form: it runs, its own checks hold, and the figures that others quote are there.

use clap::Parser;
use saki_oltp::{Benchmark, Outcome, run};
use saki_report::Common;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    benchmark: Benchmark,
}

/// Runs a benchmark as from a command line.
fn outcome(name: &str, options: &[&str]) -> Outcome {
    // What comes after a hyphen tells runs of one benchmark apart.
    let benchmark = name.split_once('-').map_or(name, |(benchmark, _)| benchmark);
    let data = format!("{}/{}", env!("CARGO_TARGET_TMPDIR"), name);
    // Of a run that was cut short.
    let _ = std::fs::remove_dir_all(&data);
    let fixed = ["oltp", "--small", "--seed", "7", "--data", &data, benchmark];
    let arguments = Arguments::parse_from(fixed.iter().chain(options));
    let outcome = run(&arguments.common, &arguments.benchmark).expect("it runs");
    let report = &outcome.report;
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    assert!(report.checks > 0 && !report.rows.is_empty() && !report.configuration.is_empty());
    assert!(outcome.charts.iter().any(|chart| !chart.series.is_empty()), "there is something to draw");
    let left: Vec<_> = std::fs::read_dir(&data).expect("the directory").collect();
    assert!(left.is_empty(), "nothing is left behind: {left:?}");
    outcome
}

fn expect(outcome: &Outcome, names: &[&str]) {
    for name in names {
        let value = outcome.report.summary.get(*name).unwrap_or_else(|| panic!("the summary has no {name}"));
        assert!(value.is_finite() && *value > 0.0, "{name} is {value}");
    }
}

#[test]
fn neworder() {
    let outcome = outcome("neworder", &["--all"]);
    let names = ["tps_1", "tps_2", "scaling_2", "scaling_2_log_memory", "single_log_tps_2", "p99_ms_1"];
    expect(&outcome, &names);
    expect(&outcome, &["speculation_ratio", "speculation_ratio_1", "one_by_one_tps_1", "disk_write_mb_per_s"]);
}

#[test]
fn neworder_with_fewer_warehouses_than_workers() {
    let outcome = outcome("neworder-shared", &["--warehouses", "1", "--threads", "2", "--no-hot"]);
    expect(&outcome, &["tps_2"]);
}

#[test]
fn tpcc() {
    let outcome = outcome("tpcc", &[]);
    // Of so short a run, a disk that pauses may leave no New-Order to be counted by the minute.
    expect(&outcome, &["tps_per_worker", "tps_total", "scaling_2", "consistent", "new_order_p99_ms_1"]);
}

#[test]
fn tpcc_with_more_and_with_fewer_warehouses_than_workers() {
    for warehouses in ["1", "5"] {
        expect(&outcome("tpcc-shared", &["--threads", "2", "--warehouses", warehouses]), &["consistent"]);
    }
}

#[test]
fn ycsb() {
    let outcome = outcome("ycsb", &[]);
    expect(&outcome, &["c_uniform_reads_per_worker", "c_uniform_batched_reads_per_worker"]);
    expect(&outcome, &["c_zipf_reads_per_worker", "a_zipf_scaling_2", "d_latest_operations_1", "e_zipf_operations_2"]);
}

#[test]
fn ycsb_with_many_operations_in_a_transaction() {
    let outcome = outcome("ycsb-many", &["--mixed-operations", "10", "--threads", "2", "--relaxed"]);
    expect(&outcome, &["a_zipf_operations_2", "e_uniform_operations_2"]);
}

#[test]
fn recovery() {
    let outcome = outcome("recovery", &[]);
    expect(&outcome, &["mb_per_s_per_core", "updates_second_mb_per_s_per_core_1"]);
}

#[test]
fn validation() {
    expect(&outcome("validation", &[]), &["range_held_us_2000", "keys_held_us_2000"]);
}
